// SPDX-License-Identifier: GPL-2.0
/*
 * Run a fuzz target once with each file on the command line, for example with the seeds on an
 * architecture that has no libFuzzer. The target aborts if a result is wrong.
 */
#include "fuzz.h"

static u8 bytes[1 << 20];

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		size_t size;
		u8 *copy;

		if (!file) {
			perror(argv[i]);
			return 2;
		}
		size = fread(bytes, 1, sizeof(bytes), file);
		fclose(file);
		copy = fuzz_copy(bytes, size);
		LLVMFuzzerTestOneInput(copy, size);
		free(copy);
	}
	printf("# %d inputs\n", argc - 1);
	return 0;
}
