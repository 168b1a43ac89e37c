// SPDX-License-Identifier: GPL-2.0
/* hpcc-traffic: measurements, and the results as JSON lines. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "traffic.h"

/* If there are more samples, we double the interval, and keep the samples at its multiples: samples
 * that are late, for instance because of an event, are left out.
 */
#define SAMPLES_MAX	1024

struct sample {
	uint64_t	t_ns;
	uint64_t	*values;	/* queue and tx of each port with SERIES 1, then flows */
};

bool have_until;
static struct sample samples[SAMPLES_MAX];
static unsigned int nr_samples;
static struct reading *at_from, *at_until, *at_end, *at_sample;
static uint64_t from_taken_ns, until_taken_ns;
static bool have_from;
static FILE *result;
static const char *result_path;

static void check_result(bool failed)
{
	if (failed)
		die("%s: %s", result_path, strerror(errno));
}

void open_measurement(const char *path)
{
	result_path = path;
	result = fopen(path, "we");
	check_result(!result);
	setvbuf(result, NULL, _IOFBF, 1 << 20);
	at_from = zeroed(nr_ports, sizeof(*at_from));
	at_until = zeroed(nr_ports, sizeof(*at_until));
	at_end = zeroed(nr_ports, sizeof(*at_end));
	at_sample = zeroed(nr_ports, sizeof(*at_sample));
	open_ports();
}

static unsigned int nr_values(void)
{
	return 2 * nr_series + (series_flows ? nr_flows : 0);
}

/* Bytes that the receiver has, whether it has read them or not. */
static uint64_t bytes_of(const struct flow *f)
{
	int fd, waiting = 0;

	if (!f->conn || f->done || !f->sent)
		return f->received;
	fd = f->conn->end[f->conn->end[0].out == f].fd;
	if (fd >= 0)
		ioctl(fd, FIONREAD, &waiting);
	return f->received + waiting;
}

static void halve_samples(void)
{
	unsigned int i, n = 0;

	interval_ns *= 2;
	for (i = 0; i < nr_samples; i++) {
		if (samples[i].t_ns % interval_ns)
			free(samples[i].values);
		else
			samples[n++] = samples[i];
	}
	nr_samples = n;
}

void take_sample(uint64_t t_ns)
{
	unsigned int i, n = 0;
	struct sample *s;

	if (nr_samples == SAMPLES_MAX)
		halve_samples();
	if (t_ns % interval_ns)
		return;
	s = &samples[nr_samples++];
	s->t_ns = t_ns;
	s->values = zeroed(nr_values() + 1, sizeof(*s->values));
	read_ports(at_sample, true);
	for (i = 0; i < nr_ports; i++) {
		if (!ports[i].series)
			continue;
		s->values[n++] = at_sample[i].port.qlen_bytes;
		s->values[n++] = at_sample[i].port.tx_bytes;
	}
	for (i = 0; series_flows && i < nr_flows; i++)
		s->values[n++] = bytes_of(&flows[i]);
}

static void read_endless(bool until)
{
	unsigned int i;

	for (i = 0; nr_endless && i < nr_flows; i++)
		if (flows[i].endless)
			flows[i].window[until] = bytes_of(&flows[i]);
}

/* The window ends at the configured time, or when the first flow ends if no time is configured. It
 * always ends with the last flow.
 */
bool window_ends(bool over)
{
	return have_from && !have_until && (until_ns ? over : nr_ended > 0);
}

void measure(uint64_t t_ns, bool over)
{
	if (!have_from && t_ns >= from_ns) {
		read_ports(at_from, false);
		read_endless(false);
		from_taken_ns = t_ns;
		have_from = true;
	}
	if (window_ends(over || t_ns >= until_ns)) {
		read_ports(at_until, false);
		read_endless(true);
		until_taken_ns = t_ns;
		have_until = true;
	}
}

uint64_t next_reading_ns(void)
{
	if (!have_from)
		return from_ns;
	return have_until || !until_ns ? NEVER : until_ns;
}

static void put_histogram(FILE *out, const struct reading *r)
{
	const char *comma = "";
	unsigned int b;

	fprintf(out, "\"hist\":{");
	for (b = 0; b < HPCC_HIST_BUCKETS; b++) {
		if (!r->hist[b])
			continue;
		fprintf(out, "%s\"%u\":%llu", comma, b, r->hist[b]);
		comma = ",";
	}
	fprintf(out, "}");
}

static void put_reading(FILE *out, const char *when, uint64_t t_ns, const struct port *p,
			const struct reading *reading)
{
	const struct tc_hpcc_xstats *r = &reading->port;
	__u64 drops = r->drop_limit + r->drop_gso + r->drop_knonect;

	fprintf(out, "{\"kind\":\"port\",\"when\":\"%s\",\"t_ns\":%" PRIu64 ",\"id\":%u,"
		"\"tx_bytes\":%llu,\"tx_packets\":%llu,\"stamped\":%llu,\"drops\":%llu,"
		"\"drops_ect\":%llu,\"drops_knonect\":%llu,\"marks\":%llu,\"marks_kmax\":%llu,"
		"\"queue_max\":%u,\"resyncs\":%llu,", when, t_ns, p->id, r->tx_bytes,
		r->tx_packets, r->stamped, reading->drops > drops ? reading->drops : drops,
		r->drop_limit_ect, r->drop_knonect, r->marked, r->marked_kmax,
		r->qlen_max_bytes, r->resyncs);
	if (p->marking)
		fprintf(out, "\"kmin\":%u,\"kmax\":%u,\"knonect\":%u,\"pmax_ppm\":%u,",
			p->kmin, p->kmax, p->knonect, p->pmax_ppm);
	put_histogram(out, reading);
	fprintf(out, "}\n");
}

static void put_ports(FILE *out, const char *when, uint64_t t_ns, const struct reading *r)
{
	unsigned int i;

	for (i = 0; i < nr_ports; i++)
		put_reading(out, when, t_ns, &ports[i], &r[i]);
}

static void put_samples(FILE *out)
{
	unsigned int i, n;

	for (i = 0; i < nr_samples; i++) {
		fprintf(out, "{\"kind\":\"sample\",\"t_ns\":%" PRIu64 ",\"values\":[",
			samples[i].t_ns);
		for (n = 0; n < nr_values(); n++)
			fprintf(out, "%s%" PRIu64, n ? "," : "", samples[i].values[n]);
		fprintf(out, "]}\n");
	}
}

/* Write the result of a flow: id, time at which it was done or -1, bytes received, segments
 * retransmitted; the bytes of an endless flow at start and end of the window. If it is not in
 * flows[], nobody needs it after that. NULL, messages of RPCs and edges have no result.
 */
void put_flow(struct flow *f)
{
	if (!f || f->rpc || f->edge || f->written)
		return;
	f->written = true;
	check_result(fprintf(result, "flow %u %" PRId64 " %" PRIu64 " %u %" PRIu64 " %" PRIu64 "\n",
			     f->id, f->done ? (int64_t)f->done_ns : -1, bytes_of(f), f->retrans,
			     f->window[0], f->window[1]) < 0);
	if (f->streamed)
		free(f);
}

void write_result(void)
{
	uint64_t end_ns = virtual_ns();
	FILE *out = result;
	struct flow *f;
	unsigned int i;

	read_ports(at_end, false);
	put_open_flows();
	for (i = 0; i < nr_flows; i++)
		put_flow(&flows[i]);
	while ((f = next_flow()))
		put_flow(f);
	fprintf(out, "{\"kind\":\"zero\",\"clock_ns\":%" PRIu64 "}\n", zero_clock_ns());
	put_rpcs(out);
	put_collectives(out);
	put_programs(out);
	put_hosts(out);
	if (have_from)
		put_ports(out, "from", from_taken_ns, at_from);
	if (have_until)
		put_ports(out, "until", until_taken_ns, at_until);
	put_ports(out, "end", end_ns, at_end);
	put_samples(out);
	/* The kernel may report a full disk only when it has to write the bytes. */
	check_result(ferror(out) || fflush(out) || fsync(fileno(out)) || fclose(out));
}
