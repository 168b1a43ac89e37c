/* SPDX-License-Identifier: GPL-2.0 */
/* The headers that most files of the guest's kernel and most modules include; see tree.sh. */
#define KBUILD_MODNAME "linux"
#include <linux/compiler-version.h>
#include <linux/kconfig.h>
#include <linux/compiler_types.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/interrupt.h>
#include <linux/uaccess.h>
#include <linux/device.h>
#include <linux/seq_file.h>
#include <linux/proc_fs.h>
#include <linux/netdevice.h>
#include <net/tcp.h>
#include <net/rtnetlink.h>
#include <net/pkt_sched.h>
