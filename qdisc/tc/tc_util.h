/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions and structures of tc (iproute2) that the plugin uses. No package has headers for them;
 * the tc program exports the functions.
 */
#ifndef _HPCC_QDISC_TC_TC_UTIL_H
#define _HPCC_QDISC_TC_TC_UTIL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

/* Older versions end before has_block, newer ones have const pointers; else the layout is equal. */
struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse_qopt)(struct qdisc_util *qu, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev);
	int (*print_qopt)(struct qdisc_util *qu, FILE *f, struct rtattr *opt);
	int (*print_xstats)(struct qdisc_util *qu, FILE *f, struct rtattr *xstats);
	int (*parse_copt)(struct qdisc_util *qu, int argc, char **argv,
			  struct nlmsghdr *n, const char *dev);
	int (*print_copt)(struct qdisc_util *qu, FILE *f, struct rtattr *opt);
	int (*has_block)(struct qdisc_util *qu, struct rtattr *opt, __u32 block_idx, bool *p_has);
};

enum output_type { PRINT_FP = 1, PRINT_JSON = 2, PRINT_ANY = 4 };
enum color_attr { COLOR_NONE = 6 };

int addattr_l(struct nlmsghdr *n, int maxlen, int type, const void *data, int alen);
struct rtattr *addattr_nest(struct nlmsghdr *n, int maxlen, int type);
int addattr_nest_end(struct nlmsghdr *n, struct rtattr *nest);
int get_rate64(__u64 *rate, const char *str);
int get_size(unsigned int *size, const char *str);
int get_time64(__s64 *time_ns, const char *str);
int parse_rtattr_flags(struct rtattr *tb[], int max, struct rtattr *rta,
		       int len, unsigned short flags);
void tc_print_rate(enum output_type t, const char *key, const char *fmt, unsigned long long rate);
int print_color_string(enum output_type t, enum color_attr color,
		       const char *key, const char *fmt, const char *value);
int print_color_u64(enum output_type t, enum color_attr color, const char *key,
		    const char *fmt, uint64_t value);
int print_color_bool(enum output_type t, enum color_attr color,
		     const char *key, const char *fmt, bool value);
int print_color_float(enum output_type t, enum color_attr color,
		      const char *key, const char *fmt, double value);
bool is_json_context(void);
void open_json_object(const char *str);
void close_json_object(void);
void open_json_array(enum output_type type, const char *str);
void close_json_array(enum output_type type, const char *delim);

extern struct qdisc_util hpcc_qdisc_util;

#endif /* _HPCC_QDISC_TC_TC_UTIL_H */
