// SPDX-License-Identifier: GPL-2.0
/*
 * Configuration of telemetry carriers other than the TCP option: parameters of INT (int.c) and CSIG
 * (csig.c).
 */
#include <linux/if_vlan.h>
#include <net/netlink.h>

#include "core/sched.h"

/* Interval of the utilization in INT and CSIG: two T of a rack at 100 Gb/s. */
static const u32 hpcc_int_window_default = 10 * NSEC_PER_USEC;

static const u8 hpcc_stamp_any_csig = HPCC_STAMP_CSIG | HPCC_STAMP_CSIG_PUSH;

static void hpcc_parse_int(struct nlattr **tb, struct hpcc_config *cfg)
{
	if (!(cfg->stamp & HPCC_STAMP_INT))
		cfg->int_dscp = HPCC_INT_DSCP_DEFAULT;
	else if (tb[TCA_HPCC_INT_DSCP])
		cfg->int_dscp = nla_get_u8(tb[TCA_HPCC_INT_DSCP]);
	if (!(cfg->stamp & (HPCC_STAMP_INT | HPCC_STAMP_CSIG)))
		cfg->int_window_ns = hpcc_int_window_default;
	else if (tb[TCA_HPCC_INT_WINDOW])
		cfg->int_window_ns = nla_get_u32(tb[TCA_HPCC_INT_WINDOW]);
}

static void hpcc_parse_csig(struct nlattr **tb, struct hpcc_config *cfg)
{
	if (!(cfg->stamp & hpcc_stamp_any_csig)) {
		cfg->csig_tpid = HPCC_CSIG_TPID_DEFAULT;
		cfg->csig_abw = HPCC_CSIG_ABW_DEFAULT;
		cfg->csig_time_ns = HPCC_CSIG_TIME_DEFAULT;
		return;
	}
	if (tb[TCA_HPCC_CSIG_TPID])
		cfg->csig_tpid = nla_get_u32(tb[TCA_HPCC_CSIG_TPID]);
	if (tb[TCA_HPCC_CSIG_ABW])
		cfg->csig_abw = nla_get_u32(tb[TCA_HPCC_CSIG_ABW]);
	if (tb[TCA_HPCC_CSIG_TIME])
		cfg->csig_time_ns = nla_get_u32(tb[TCA_HPCC_CSIG_TIME]);
}

/**
 * hpcc_parse_carriers() - parse the parameters of carriers
 * @tb: attributes of a change; a missing attribute of a new carrier gets its default
 * @cfg: configuration, with stamp already set
 *
 * Reset the parameters of a disabled carrier, because a dump would not show them.
 */
void hpcc_parse_carriers(struct nlattr **tb, struct hpcc_config *cfg)
{
	hpcc_parse_int(tb, cfg);
	hpcc_parse_csig(tb, cfg);
}

static int hpcc_validate_int(struct nlattr **tb, const struct hpcc_config *cfg,
			     struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = cfg->stamp & HPCC_STAMP_INT ? NULL : tb[TCA_HPCC_INT_DSCP];

	if (!(cfg->stamp & (HPCC_STAMP_INT | HPCC_STAMP_CSIG)) && !attr)
		attr = tb[TCA_HPCC_INT_WINDOW];
	if (!attr)
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, attr,
			    "int_dscp, int_window: need stamp int, or csig for int_window");
	return -EINVAL;
}

static int hpcc_validate_csig(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			      struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = tb[TCA_HPCC_CSIG_TPID] ?: tb[TCA_HPCC_CSIG_ABW] ?:
				    tb[TCA_HPCC_CSIG_TIME];

	if (attr && !(cfg->stamp & hpcc_stamp_any_csig)) {
		NL_SET_ERR_MSG_ATTR(extack, attr,
				    "csig_tpid, csig_abw, csig_time: need stamp csig or csig_push");
		return -EINVAL;
	}
	if (cfg->stamp & hpcc_stamp_any_csig && !hpcc_is_ethernet(qdisc_dev(sch))) {
		NL_SET_ERR_MSG_ATTR(extack, tb[TCA_HPCC_STAMP],
				    "stamp csig, csig_push: need a device with Ethernet headers");
		return -EINVAL;
	}
	if (eth_type_vlan(htons(cfg->csig_tpid)) || cfg->csig_tpid == ETH_P_IP ||
	    cfg->csig_tpid == ETH_P_IPV6) {
		NL_SET_ERR_MSG_ATTR(extack, tb[TCA_HPCC_CSIG_TPID],
				    "csig_tpid: is the EtherType of IP or of VLAN tags");
		return -EINVAL;
	}
	return 0;
}

/* All ones mean "unknown port" in IOAM and INT. */
static int hpcc_validate_port(struct nlattr **tb, const struct hpcc_config *cfg,
			      struct netlink_ext_ack *extack)
{
	if (!(cfg->stamp & (HPCC_STAMP_IOAM | HPCC_STAMP_INT)) || cfg->port != HPCC_PORT_MAX)
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, tb[TCA_HPCC_PORT] ?: tb[TCA_HPCC_STAMP],
			    "port: 0 .. 65534 with stamp ioam or int, where 65535 means unknown");
	return -ERANGE;
}

/* IFA has no flag for a missing hop, so an anonymous port cannot take part. */
static int hpcc_validate_ifa(struct nlattr **tb, const struct hpcc_config *cfg,
			     struct netlink_ext_ack *extack)
{
	if (!(cfg->stamp & HPCC_STAMP_IFA) || cfg->identify)
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, tb[TCA_HPCC_IDENTIFY] ?: tb[TCA_HPCC_STAMP],
			    "stamp ifa: needs identify on");
	return -EINVAL;
}

/**
 * hpcc_validate_carriers() - check the combination of carrier parameters
 * @sch: the qdisc
 * @tb: attributes of a change
 * @cfg: resulting configuration
 * @extack: error message
 *
 * Return: 0, -EINVAL or -ERANGE.
 */
int hpcc_validate_carriers(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			   struct netlink_ext_ack *extack)
{
	return hpcc_validate_port(tb, cfg, extack) ?: hpcc_validate_int(tb, cfg, extack) ?:
	       hpcc_validate_ifa(tb, cfg, extack) ?: hpcc_validate_csig(sch, tb, cfg, extack);
}

/**
 * hpcc_dump_carriers() - write the parameters of carriers
 * @skb: dump
 * @cfg: configuration
 *
 * Return: 0 or -EMSGSIZE.
 */
int hpcc_dump_carriers(struct sk_buff *skb, const struct hpcc_config *cfg)
{
	if ((cfg->stamp & HPCC_STAMP_INT &&
	     nla_put_u8(skb, TCA_HPCC_INT_DSCP, cfg->int_dscp)) ||
	    (cfg->stamp & (HPCC_STAMP_INT | HPCC_STAMP_CSIG) &&
	     nla_put_u32(skb, TCA_HPCC_INT_WINDOW, cfg->int_window_ns)) ||
	    (cfg->stamp & hpcc_stamp_any_csig &&
	     (nla_put_u32(skb, TCA_HPCC_CSIG_TPID, cfg->csig_tpid) ||
	      nla_put_u32(skb, TCA_HPCC_CSIG_ABW, cfg->csig_abw) ||
	      nla_put_u32(skb, TCA_HPCC_CSIG_TIME, cfg->csig_time_ns))))
		return -EMSGSIZE;
	return 0;
}
