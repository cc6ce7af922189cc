/* Copies a file into $SYNCED when it is synced: what is there is what a power cut leaves. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int kept(int number, int file) {
    char link[64], from[4096], to[4352], block[65536];
    const char *folder = getenv("SYNCED");
    int result = (int)syscall(number, file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, from, sizeof from - 1);
    if (result != 0 || folder == NULL || length < 0) return result;
    from[length] = 0;
    snprintf(to, sizeof to, "%s/%s", folder, strrchr(from, '/') + 1);
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (ssize_t count; in >= 0 && out >= 0 && (count = read(in, block, sizeof block)) > 0;)
        if (write(out, block, (size_t)count) != count) abort();
    close(in);
    close(out);
    return result;
}

int fsync(int file) { return kept(SYS_fsync, file); }
int fdatasync(int file) { return kept(SYS_fdatasync, file); }
