// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc-replay: run recorded ACKs through <hpcc/law/algo.h>.
 *
 * A trace is a CSV file with one line per ACK of one sender, and with the window that the HPCC
 * authors' simulator computed:
 *
 *	# hpcc-trace 1
 *	# T_ns=4160 w_max=52000 eta=0.95 max_stage=5 w_ai=26.0 w_min=52.0 ...
 *	ack_seq,snd_nxt,nhop,h0_bps,h0_ts_ns,h0_tx_bytes,h0_qlen_bytes,...,
 *		U,W,Wc,inc_stage,last_update_seq
 *
 * Each hop has the four h columns; they are empty if an ACK has fewer hops. U is the average. W and
 * Wc are in bytes, rounded down.
 *
 * The law uses one unit of time for T, timestamps, txBytes and queues. hpcc-replay uses a unit of
 * 2^-k ns, with the largest k that the trace's T and counters allow. So the reported errors are
 * errors of the law, and not rounding errors of the unit.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>
#include <draft.h>

enum { EXIT_WITHIN, EXIT_BEYOND, EXIT_UNUSABLE };

/* Columns before the hops, for each hop, and after the hops. */
enum { COL_ACK_SEQ, COL_SND_NXT, COL_NHOP, COLS_HEAD };
enum { COL_BPS, COL_TS_NS, COL_TX_BYTES, COL_QLEN_BYTES, COLS_HOP };
enum { COL_U, COL_W, COL_WC, COL_INC_STAGE, COL_LAST_UPDATE_SEQ, COLS_TAIL };

static const char *const head_names[] = { "ack_seq", "snd_nxt", "nhop" };
static const char *const hop_names[] = { "bps", "ts_ns", "tx_bytes",
					 "qlen_bytes" };
static const char *const tail_names[] = { "U", "W", "Wc", "inc_stage",
					  "last_update_seq" };

#define COLS_MAX	(COLS_HEAD + HPCC_HOPS_MAX * COLS_HOP + COLS_TAIL)

/* Counters of a trace are below 2^40 ns (18 minutes). With at most this many bits of fraction the
 * counters are below 2^62.
 */
#define FRAC_BITS_MAX	22

static const double ns_per_s = 1e9;

struct limits {
	double	du;
	double	dw;
};

struct trace {
	const char	*path;
	unsigned long	line;
	FILE		*file;
	char		*text;
	size_t		size;
	unsigned int	nr_hops;	/* number of hops in the columns */
	double		w_max;
	unsigned int	frac_bits;	/* time unit: 2^-frac_bits ns */
	struct hpcc_params params;
};

struct row {
	u32	ack_seq;
	u32	snd_nxt;
	u32	nr;
	struct hpcc_sample s[HPCC_HOPS_MAX];
	double	U;
	double	W;
	double	Wc;
	u32	inc_stage;
	u32	last_update_seq;
};

struct result {
	double	du;
	double	dw;
	unsigned long rows;
	unsigned long stage_line;	/* line of the first difference, 0: none */
	unsigned long seq_line;
};

static int __attribute__((format(printf, 2, 3)))
refuse(const struct trace *t, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "hpcc-replay: %s", t->path);
	if (t->line)
		fprintf(stderr, ":%lu", t->line);
	fputs(": ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return -EINVAL;
}

/* Read the next line, without its end, into t->text. Return: 1; 0 at the end of the file. */
static int next_line(struct trace *t)
{
	ssize_t len = getline(&t->text, &t->size, t->file);

	if (len < 0)
		return ferror(t->file) ? refuse(t, "%s", strerror(errno)) : 0;
	t->line++;
	if ((size_t)len != strlen(t->text))
		return refuse(t, "binary data");
	t->text[strcspn(t->text, "\r\n")] = '\0';
	return 1;
}

static int parse_u64(const struct trace *t, const char *name, const char *text,
		     u64 limit, u64 *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || *value > limit)
		return refuse(t, "%s is \"%s\", not an integer of 0 .. %" PRIu64,
			      name, text, (uint64_t)limit);
	return 0;
}

static int parse_u32(const struct trace *t, const char *name, const char *text,
		     u32 *value)
{
	u64 wide;
	int err = parse_u64(t, name, text, UINT32_MAX, &wide);

	*value = wide;
	return err;
}

static int parse_real(const struct trace *t, const char *name,
		      const char *text, double least, double most, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end || !(*value >= least && *value <= most))
		return refuse(t, "%s is \"%s\", not a number of %g .. %g", name,
			      text, least, most);
	return 0;
}

/* Return: the value of " name=value" in the parameter line, which the caller frees. */
static char *find_param(const struct trace *t, const char *name)
{
	size_t len = strlen(name);
	const char *at = t->text;

	while ((at = strchr(at, ' '))) {
		at++;
		if (!strncmp(at, name, len) && at[len] == '=')
			return strndup(at + len + 1, strcspn(at + len + 1, " "));
	}
	return NULL;
}

static int param(const struct trace *t, const char *name, double least,
		 double most, double *value)
{
	char *text = find_param(t, name);
	int err;

	if (!text)
		return refuse(t, "parameter %s is missing", name);
	err = parse_real(t, name, text, least, most, value);
	free(text);
	return err;
}

static u64 fixed(double value, unsigned int bits)
{
	return (u64)llrint(ldexp(value, bits));
}

static int read_params(struct trace *t)
{
	double T_ns, eta, max_stage, w_ai, w_min;

	if (param(t, "T_ns", 1e3, 1e9, &T_ns) ||
	    param(t, "w_max", 1, 1e12, &t->w_max) ||
	    param(t, "eta", 1e-3, 1, &eta) ||
	    param(t, "max_stage", 0, UINT8_MAX, &max_stage) ||
	    param(t, "w_ai", 0, t->w_max, &w_ai) ||
	    param(t, "w_min", 1e-3, t->w_max, &w_min))
		return -EINVAL;

	t->frac_bits = FRAC_BITS_MAX;
	while (ldexp(T_ns, t->frac_bits) > HPCC_T_MAX)
		t->frac_bits--;
	hpcc_params_init(&t->params, fixed(T_ns, t->frac_bits),
			 fixed(t->w_max, HPCC_W_BITS), fixed(w_min, HPCC_W_BITS),
			 fixed(w_ai, HPCC_W_BITS), fixed(eta, HPCC_FRAC_BITS),
			 max_stage);
	return 0;
}

/* Name of column @col in a trace with @nr_hops hops. */
static void column_name(char *name, size_t size, unsigned int col,
			unsigned int nr_hops)
{
	unsigned int hop = (col - COLS_HEAD) / COLS_HOP;

	if (col < COLS_HEAD)
		snprintf(name, size, "%s", head_names[col]);
	else if (hop < nr_hops)
		snprintf(name, size, "h%u_%s", hop,
			 hop_names[(col - COLS_HEAD) % COLS_HOP]);
	else
		snprintf(name, size, "%s",
			 tail_names[col - COLS_HEAD - nr_hops * COLS_HOP]);
}

static unsigned int nr_columns(const struct trace *t)
{
	return COLS_HEAD + t->nr_hops * COLS_HOP + COLS_TAIL;
}

/* Split t->text at its commas. Return: number of fields, or -EINVAL. */
static int split(struct trace *t, char *field[COLS_MAX])
{
	char *rest = t->text;
	unsigned int n = 0;

	while (rest) {
		if (n == COLS_MAX)
			return refuse(t, "more than %d columns", COLS_MAX);
		field[n++] = strsep(&rest, ",");
	}
	return n;
}

static int read_columns(struct trace *t)
{
	char *field[COLS_MAX];
	char name[32];
	unsigned int col;
	int n = split(t, field);

	if (n < 0)
		return n;
	t->nr_hops = 0;
	for (col = 0; col < (unsigned int)n; col++)
		t->nr_hops += field[col][0] == 'h' && strstr(field[col], "_bps");
	if (t->nr_hops < 1 || t->nr_hops > HPCC_HOPS_MAX)
		return refuse(t, "columns for %u hops, not 1 .. %d", t->nr_hops,
			      HPCC_HOPS_MAX);

	for (col = 0; col < nr_columns(t); col++) {
		column_name(name, sizeof(name), col, t->nr_hops);
		if (col >= (unsigned int)n || strcmp(field[col], name))
			return refuse(t, "column %u is not %s", col + 1, name);
	}
	if ((unsigned int)n > nr_columns(t))
		return refuse(t, "%d columns, not %u", n, nr_columns(t));
	return 0;
}

static int read_heading(struct trace *t)
{
	int got = next_line(t);

	if (got < 0)
		return got;
	if (!got || strcmp(t->text, "# hpcc-trace 1"))
		return refuse(t, "does not begin with \"# hpcc-trace 1\"");
	got = next_line(t);
	if (got < 0)
		return got;
	if (!got || strncmp(t->text, "# ", 2))
		return refuse(t, "no line of parameters");
	if (read_params(t))
		return -EINVAL;
	got = next_line(t);
	if (got < 0)
		return got;
	if (!got)
		return refuse(t, "no line of column names");
	return read_columns(t);
}

static int read_hop(const struct trace *t, char *const field[COLS_HOP],
		    unsigned int hop, struct hpcc_sample *s)
{
	static const u64 limit[COLS_HOP] = { 1000000000000ULL, 1ULL << 40,
					     1ULL << 62, 1ULL << 40 };
	const long double units = ldexpl(1, t->frac_bits);
	long double ns_per_byte;
	u64 value[COLS_HOP];
	char name[32];
	unsigned int i;

	for (i = 0; i < COLS_HOP; i++) {
		snprintf(name, sizeof(name), "h%u_%s", hop, hop_names[i]);
		if (parse_u64(t, name, field[i], limit[i], &value[i]))
			return -EINVAL;
	}
	if (!value[COL_BPS])
		return refuse(t, "h%u_bps is 0", hop);
	ns_per_byte = 8 * (long double)ns_per_s / value[COL_BPS];
	if (value[COL_TX_BYTES] * ns_per_byte > limit[COL_TS_NS] ||
	    value[COL_QLEN_BYTES] * ns_per_byte > limit[COL_TS_NS])
		return refuse(t, "h%u_bps is too low for so many bytes", hop);

	s->hop = hop + 1;
	s->tag = 0;
	s->ts = value[COL_TS_NS] << t->frac_bits;
	s->tx = (u64)llrintl(value[COL_TX_BYTES] * ns_per_byte * units);
	s->qlen = (u64)llrintl(value[COL_QLEN_BYTES] * ns_per_byte * units);
	return 0;
}

/* Return: 1 with a row; 0 at the end of the file. */
static int read_row(struct trace *t, struct row *r)
{
	char *field[COLS_MAX];
	char *const *tail;
	unsigned int i;
	int n = next_line(t);

	if (n <= 0)
		return n;
	n = split(t, field);
	if (n < 0)
		return n;
	if ((unsigned int)n != nr_columns(t))
		return refuse(t, "%d columns, not %u", n, nr_columns(t));
	if (parse_u32(t, "ack_seq", field[COL_ACK_SEQ], &r->ack_seq) ||
	    parse_u32(t, "snd_nxt", field[COL_SND_NXT], &r->snd_nxt) ||
	    parse_u32(t, "nhop", field[COL_NHOP], &r->nr))
		return -EINVAL;
	if (r->nr > t->nr_hops)
		return refuse(t, "nhop is %u, with columns for %u", r->nr,
			      t->nr_hops);
	for (i = 0; i < r->nr; i++)
		if (read_hop(t, &field[COLS_HEAD + i * COLS_HOP], i, &r->s[i]))
			return -EINVAL;

	tail = &field[COLS_HEAD + t->nr_hops * COLS_HOP];
	if (parse_real(t, "U", tail[COL_U], 0, HPCC_U_MAX, &r->U) ||
	    parse_real(t, "W", tail[COL_W], 0, t->w_max, &r->W) ||
	    parse_real(t, "Wc", tail[COL_WC], 0, t->w_max, &r->Wc) ||
	    parse_u32(t, "inc_stage", tail[COL_INC_STAGE], &r->inc_stage) ||
	    parse_u32(t, "last_update_seq", tail[COL_LAST_UPDATE_SEQ],
		      &r->last_update_seq))
		return -EINVAL;
	return 1;
}

/* The trace has whole bytes, rounded down, so each value in [ref, ref + 1) is equal to ref. */
static double window_error(u64 W_q16, double ref)
{
	double W = ldexp((double)W_q16, -HPCC_W_BITS);

	if (W < ref)
		return ref - W;
	return fmax(0, W - (ref + 1));
}

static void compare(const struct trace *t, const struct hpcc_algo *a,
		    const struct row *r, struct result *res)
{
	double U = ldexp((double)a->U_q24, -HPCC_FRAC_BITS) +
		   ldexp(a->U_low, -HPCC_FRAC_BITS - HPCC_U_LOW_BITS);

	res->du = fmax(res->du, fabs(U - r->U));
	res->dw = fmax(res->dw, window_error(a->W_q16, r->W) / t->w_max);
	res->dw = fmax(res->dw, window_error(a->Wc_q16, r->Wc) / t->w_max);
	if (!res->stage_line && a->inc_stage != r->inc_stage)
		res->stage_line = t->line;
	if (!res->seq_line && a->last_update_seq != r->last_update_seq)
		res->seq_line = t->line;
	res->rows++;
}

static int replay(struct trace *t, struct result *res)
{
	struct hpcc_link L[HPCC_HOPS_MAX] = { 0 };
	struct hpcc_algo a;
	struct row r;
	int got;

	if (read_heading(t))
		return -EINVAL;
	hpcc_algo_init(&a, &t->params);
	hpcc_algo_links(&a, L, HPCC_HOPS_MAX);
	while ((got = read_row(t, &r)) > 0) {
		hpcc_new_ack(&a, &t->params, r.s, r.nr, r.ack_seq, r.snd_nxt);
		compare(t, &a, &r, res);
	}
	if (got < 0)
		return got;
	return res->rows ? 0 : refuse(t, "no rows");
}

static void print_result(const char *path, const struct result *res)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');
	int len = dot && dot != name ? (int)(dot - name) : (int)strlen(name);

	printf("%.*s dU=%.1e dW=%.1e\n", len, name, res->du, res->dw);
}

static int replay_file(const char *path, const struct limits *limits)
{
	struct trace t = { .path = path };
	struct result res = { 0 };
	int err;

	t.file = fopen(path, "r");
	if (!t.file) {
		refuse(&t, "%s", strerror(errno));
		return EXIT_UNUSABLE;
	}
	err = replay(&t, &res);
	free(t.text);
	fclose(t.file);
	if (err)
		return EXIT_UNUSABLE;

	print_result(path, &res);
	if (res.stage_line)
		fprintf(stderr, "hpcc-replay: %s:%lu: inc_stage differs\n", path,
			res.stage_line);
	if (res.seq_line)
		fprintf(stderr, "hpcc-replay: %s:%lu: last_update_seq differs\n",
			path, res.seq_line);
	return res.du > limits->du || res.dw > limits->dw || res.seq_line ||
	       res.stage_line ? EXIT_BEYOND : EXIT_WITHIN;
}

static void usage(FILE *to)
{
	fputs("usage: hpcc-replay [--max-du X] [--max-dw X] FILE...\n"
	      "\n"
	      "Runs traces (CSV, \"# hpcc-trace 1\") through the window law that tcp_hpcc uses.\n"
	      "Prints for each FILE its name without directory and extension, and\n"
	      "  dU  the largest |U - U of the trace|\n"
	      "  dW  the largest |W - W of the trace| or |Wc - Wc of the trace|, as a fraction\n"
	      "      of w_max\n"
	      "      (a trace rounds W down to whole bytes: a difference below 1 byte is no\n"
	      "      difference)\n"
	      "\n"
	      "  --max-du X  largest dU allowed (default: 1e-4)\n"
	      "  --max-dw X  largest dW allowed (default: 5e-4)\n"
	      "\n"
	      "Exit status: 0 if all files are within these limits; 1 if a file exceeds one, or\n"
	      "differs in inc_stage or last_update_seq; 2 for an invalid file or argument.\n", to);
}

static int parse_limit(const char *name, const char *text, double *limit)
{
	char *end;

	*limit = strtod(text, &end);
	if (end == text || *end || !(*limit >= 0)) {
		fprintf(stderr, "hpcc-replay: --%s is \"%s\", not a number of 0 or more\n",
			name, text);
		return -EINVAL;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "max-du", required_argument, NULL, 'u' },
		{ "max-dw", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct limits limits = { .du = 1e-4, .dw = 5e-4 };
	int status = EXIT_WITHIN;
	int opt;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return EXIT_WITHIN;
		}
		if (opt == '?' ||
		    (opt == 'u' && parse_limit("max-du", optarg, &limits.du)) ||
		    (opt == 'w' && parse_limit("max-dw", optarg, &limits.dw)))
			return EXIT_UNUSABLE;
	}
	if (optind == argc) {
		fputs("hpcc-replay: no FILE given, see --help\n", stderr);
		return EXIT_UNUSABLE;
	}
	for (; optind < argc; optind++) {
		int got = replay_file(argv[optind], &limits);

		if (got > status)
			status = got;
	}
	return status;
}
