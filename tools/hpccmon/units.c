// SPDX-License-Identifier: GPL-2.0
/* hpccmon: time, and numbers with three digits and a unit. */
#include "hpccmon.h"

double seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static const char *scaled(double value, double step, const char *const *units, char text[16])
{
	int digits;

	/* Without rounding, 999.6 would be printed as 1000. */
	while (value >= step * 0.9995 && units[1]) {
		value /= step;
		units++;
	}
	digits = value >= 99.95 || value == (long)value ? 0 : value >= 9.995 ? 1 : 2;
	snprintf(text, 16, "%.*f %s", digits, value, *units);
	return text;
}

const char *bytes_text(double bytes, char text[16])
{
	static const char *const units[] = { "B", "KB", "MB", "GB", "TB", NULL };

	return scaled(bytes, 1000, units, text);
}

const char *rate_text(double bps, char text[16])
{
	static const char *const units[] = {
		"bit/s", "Kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", NULL
	};

	return scaled(bps, 1000, units, text);
}

const char *time_text(double ns, char text[16])
{
	static const char *const units[] = { "ns", "us", "ms", "s", NULL };

	return scaled(ns, 1000, units, text);
}
