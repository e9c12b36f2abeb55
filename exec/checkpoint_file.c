/* The file of one rank in a checkpoint: head, table and arrays, written and read with their
 * digests. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "exec/checkpoint.h"

enum { FILE_VERSION = 1, CHECKPOINT_ORDER = 0x01020304 };

/* The file of a rank. Whoever may write to the directory could have put a link to somebody else's
 * file or directory in its place: neither is followed. */
static enum status checkpoint_file_path(const struct checkpoint_part *part,
                                        char path[CHECKPOINT_PATH])
{
    struct stat s;
    int n = snprintf(path, CHECKPOINT_PATH, "%s/rank-%04u.ckpt", part->step_directory, part->rank);
    if (n >= CHECKPOINT_PATH)
        return error_set(STATUS_INVALID, "path of the checkpoint has %d bytes, expected at most %d",
                         n, CHECKPOINT_PATH - 1);
    if (lstat(part->step_directory, &s) == 0 && !S_ISDIR(s.st_mode))
        return error_set(STATUS_INVALID, "%s: %s, expected the folder of a checkpoint",
                         part->step_directory,
                         S_ISLNK(s.st_mode) ? "symbolic link" : "not a folder");
    if (lstat(path, &s) == 0 && !S_ISREG(s.st_mode))
        return error_set(STATUS_INVALID, "%s: %s, expected the checkpoint file of a rank", path,
                         S_ISLNK(s.st_mode) ? "symbolic link" : "not a regular file");
    return STATUS_OK;
}

/* What is there already and no checkpoint is not replaced. */
static enum status check_replaced(const char *path)
{
    char begins[sizeof checkpoint_magic];
    FILE *f = fopen(path, "rb");
    if (!f)
        return STATUS_OK;
    bool ours = fread(begins, 1, sizeof begins, f) == sizeof begins &&
                !memcmp(begins, checkpoint_magic, sizeof begins);
    fclose(f);
    return ours ? STATUS_OK
                : error_set(STATUS_INVALID,
                            "%s: exists and is not a foreline checkpoint, so it is not "
                            "overwritten; choose another --checkpoint",
                            path);
}

/* ---- head and table */

/* Digest of head and table. */
static enum status seal(const struct checkpoint_head *head, const struct checkpoint_array *array,
                        uint8_t digest[DIGEST])
{
    size_t n = head->arrays * sizeof *array;
    char *both;
    PASS(ARRAY_NEW(both, sizeof *head + n));
    memcpy(both, head, sizeof *head);
    memcpy(both + sizeof *head, array, n);
    digest_bytes(both, sizeof *head + n, digest);
    free(both);
    return STATUS_OK;
}

/* What no digest protects yet: fields that say how the rest is to be read. */
static enum status checkpoint_file_check_head(const struct checkpoint_head *h, const char *path)
{
    if (memcmp(h->magic, checkpoint_magic, sizeof h->magic) != 0)
        return error_set(STATUS_PARSE, "%s: not a checkpoint", path);
    if (h->order != CHECKPOINT_ORDER)
        return error_set(STATUS_PARSE,
                         "%s: checkpoint was written on a machine with another byte order", path);
    if (h->version != FILE_VERSION)
        return error_set(STATUS_PARSE, "%s: checkpoint has version %u, expected %d", path,
                         h->version, FILE_VERSION);
    if (h->arrays < 1 || h->arrays > CHECKPOINT_ARRAYS)
        return error_set(STATUS_PARSE, "%s: checkpoint has %u arrays, expected 1 to %d", path,
                         h->arrays, CHECKPOINT_ARRAYS);
    return STATUS_OK;
}

/* Is the file as long as its table says? */
static enum status checkpoint_file_check_size(FILE *f, const char *path,
                                              const struct checkpoint_array *array, size_t n)
{
    long at = ftell(f), end;
    if (at < 0 || fseek(f, 0, SEEK_END) || (end = ftell(f)) < 0 || fseek(f, at, SEEK_SET))
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    uint64_t left = (uint64_t)(end - at);
    for (size_t k = 0; k < n; k++) {
        if (array[k].bytes > left)
            return error_set(STATUS_PARSE,
                             "%s: truncated: array %zu needs %llu bytes, but only %llu are left",
                             path, k, (unsigned long long)array[k].bytes, (unsigned long long)left);
        left -= array[k].bytes;
    }
    if (left > 0)
        return error_set(STATUS_PARSE,
                         "%s: %llu bytes follow the last array of the checkpoint, expected none",
                         path, (unsigned long long)left);
    return STATUS_OK;
}

enum status checkpoint_read_head(FILE *f, const char *path, struct checkpoint_head *head,
                                 struct checkpoint_array **array, uint8_t digest[DIGEST])
{
    enum status st;
    struct checkpoint_head h = {0};
    struct checkpoint_array *table = NULL;
    uint8_t sealed[DIGEST], expected[DIGEST];
    if (fread(&h, sizeof h, 1, f) != 1)
        return error_set(STATUS_PARSE,
                         "%s: file is truncated: expected a checkpoint header of %zu bytes", path,
                         sizeof h);
    TRY(checkpoint_file_check_head(&h, path));
    TRY(ARRAY_NEW(table, h.arrays));
    if (fread(table, sizeof *table, h.arrays, f) != h.arrays || fread(sealed, DIGEST, 1, f) != 1)
        FAIL(STATUS_PARSE, "%s: truncated: the table of its %u arrays is incomplete", path,
             h.arrays);
    TRY(seal(&h, table, expected));
    if (memcmp(sealed, expected, DIGEST) != 0)
        FAIL(STATUS_PARSE, "%s: damaged: the SHA-256 of its header differs", path);
    TRY(checkpoint_file_check_size(f, path, table, h.arrays));
    memcpy(digest, expected, DIGEST);
    *head = h;
    *array = table;
    table = NULL;
out:
    free(table);
    return st;
}

/* ---- writing */

/* The table without digests; *room: bytes of the largest array. */
static enum status list_state(const struct checkpoint_part *part, struct checkpoint_array **out,
                              uint32_t *out_n, size_t *room)
{
    struct device_state s;
    uint32_t n = 0;
    if (!part->device->state)
        return error_set(STATUS_UNSUPPORTED, "device '%s' does not support checkpoints",
                         part->device->name);
    while (n < CHECKPOINT_ARRAYS && part->device->state(part->device_self, n, &s))
        n++;
    struct checkpoint_array *array;
    PASS(ARRAY_NEW(array, n));
    *room = 0;
    for (uint32_t k = 0; k < n; k++) {
        part->device->state(part->device_self, k, &s);
        array[k] = (struct checkpoint_array){s.stage, s.kind, s.bytes, {0}};
        *room = s.bytes > *room ? s.bytes : *room;
    }
    *out = array;
    *out_n = n;
    return STATUS_OK;
}

/* n bytes, or the reason why not. */
static enum status checkpoint_file_put(FILE *f, const char *path, const void *data, size_t n)
{
    if (n > 0 && fwrite(data, 1, n, f) != n)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}

/* The arrays behind room for head and table, which then get their digests. */
static enum status write_all(const struct checkpoint_part *part, FILE *f, const char *path,
                             const struct checkpoint_head *head, struct checkpoint_array *array,
                             void *data, uint8_t digest[DIGEST])
{
    size_t before = sizeof *head + head->arrays * sizeof *array + DIGEST;
    if (fseek(f, (long)before, SEEK_SET))
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    for (uint32_t k = 0; k < head->arrays; k++) {
        PASS(part->device->save(part->device_self, k, data));
        digest_bytes(data, (size_t)array[k].bytes, array[k].digest);
        PASS(checkpoint_file_put(f, path, data, (size_t)array[k].bytes));
        if (part->bytes)
            atomic_fetch_add(part->bytes, array[k].bytes + 1);
    }
    PASS(seal(head, array, digest));
    rewind(f);
    PASS(checkpoint_file_put(f, path, head, sizeof *head));
    PASS(checkpoint_file_put(f, path, array, head->arrays * sizeof *array));
    return checkpoint_file_put(f, path, digest, DIGEST);
}

/* Written under another name and renamed when complete (core/base/file.h): head and table last,
 * since they hold the digests of the arrays. */
enum status checkpoint_save(struct checkpoint_part *part)
{
    enum status st;
    char path[CHECKPOINT_PATH];
    struct file_out f = {0};
    struct checkpoint_array *array = NULL;
    struct checkpoint_head head = {.version = FILE_VERSION,
                                   .order = CHECKPOINT_ORDER,
                                   .rank = part->rank,
                                   .step = part->step,
                                   .key = part->key};
    size_t room = 0;
    char *data = NULL;
    memcpy(head.magic, checkpoint_magic, sizeof head.magic);
    TRY(list_state(part, &array, &head.arrays, &room));
    TRY(ARRAY_NEW(data, room));
    if (mkdir(part->step_directory, 0777) && errno != EEXIST)
        FAIL(STATUS_IO, "%s: %s", part->step_directory, strerror(errno));
    TRY(checkpoint_file_path(part, path));
    TRY(check_replaced(path));
    TRY(file_create(path, &f));
    TRY(write_all(part, f.stream, path, &head, array, data, part->digest));
    TRY(file_commit(&f));
out:
    file_discard(&f);
    free(data);
    free(array);
    return st;
}

/* ---- reading */

/* The file's arrays are those of the device, one for one. */
static enum status check_arrays(const struct checkpoint_part *part, const char *path,
                                const struct checkpoint_head *head,
                                const struct checkpoint_array *array)
{
    struct device_state s = {0};
    for (uint32_t k = 0; k < head->arrays; k++)
        if (!part->device->state(part->device_self, k, &s) || s.bytes != array[k].bytes ||
            s.stage != array[k].stage || s.kind != array[k].kind)
            return error_set(STATUS_INVALID,
                             "%s: array %u (stage %u, %llu bytes) does not match the device's "
                             "(stage %u, %llu bytes), or is of another kind",
                             path, k, (unsigned)array[k].stage, (unsigned long long)array[k].bytes,
                             (unsigned)s.stage, (unsigned long long)s.bytes);
    if (part->device->state(part->device_self, head->arrays, &s))
        return error_set(STATUS_INVALID,
                         "%s: checkpoint has %u arrays of parameters and optimizer state, but the "
                         "device needs more",
                         path, head->arrays);
    return STATUS_OK;
}

/* One array at a time: a rank needs no more memory than its largest one besides the model. */
static enum status read_array(const struct checkpoint_part *part, FILE *f, const char *path,
                              uint32_t k, const struct checkpoint_array *array)
{
    enum status st;
    uint8_t digest[DIGEST];
    size_t n = (size_t)array->bytes;
    char *data;
    TRY(ARRAY_NEW(data, n));
    if (fread(data, 1, n, f) != n)
        FAIL(STATUS_PARSE, "%s: truncated in array %u", path, k);
    digest_bytes(data, n, digest);
    if (memcmp(digest, array->digest, DIGEST) != 0)
        FAIL(STATUS_PARSE, "%s: damaged: the SHA-256 of array %u differs", path, k);
    TRY(part->device->load(part->device_self, k, data));
    if (part->bytes)
        atomic_fetch_add(part->bytes, array->bytes + 1);
out:
    free(data);
    return st;
}

/* Everything is checked before the device is touched, but for the digests of the arrays, each of
 * which is checked before its array is loaded. */
enum status checkpoint_load(const struct checkpoint_part *part)
{
    enum status st;
    char path[CHECKPOINT_PATH];
    struct checkpoint_head head;
    struct checkpoint_array *array = NULL;
    uint8_t digest[DIGEST];
    FILE *f = NULL;
    if (!part->device->state)
        return error_set(STATUS_UNSUPPORTED, "device '%s' does not support --resume",
                         part->device->name);
    TRY(checkpoint_file_path(part, path));
    f = fopen(path, "rb");
    if (!f)
        FAIL(STATUS_IO, "%s: %s", path, strerror(errno));
    TRY(checkpoint_read_head(f, path, &head, &array, digest));
    if (memcmp(digest, part->digest, DIGEST) != 0 || head.step != part->step ||
        head.rank != part->rank)
        FAIL(
            STATUS_PARSE,
            "%s: not the file that the checkpoint's manifest lists (another SHA-256, step or rank)",
            path);
    TRY(checkpoint_match(&head.key, &part->key, path));
    TRY(check_arrays(part, path, &head, array));
    for (uint32_t k = 0; k < head.arrays; k++)
        TRY(read_array(part, f, path, k, &array[k]));
out:
    if (f)
        fclose(f);
    free(array);
    return st;
}
