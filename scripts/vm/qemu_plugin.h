/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's qemu-plugin.h that count.c uses. No package of Debian 12 contains that file.
 * This part has not changed since QEMU 7.2.
 */
#ifndef _QEMU_PLUGIN_H
#define _QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { QEMU_PLUGIN_CB_NO_REGS };
enum { QEMU_PLUGIN_MEM_RW = 3 };
typedef void (*tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_cb)(unsigned int cpu, void *data);
typedef void (*mem_cb)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		       void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb cb,
					  int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb,
				      int flags, int rw, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t idx);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *insn);

#endif /* _QEMU_PLUGIN_H */
