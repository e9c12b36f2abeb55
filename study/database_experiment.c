/* Experiments of a database: what they are, which points they have; other databases' points. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/provenance.h"
#include "core/text.h"
#include "study/database_handle.h"

/* ---- writing */

enum status database_begin(struct sweep_database *db, const struct experiment *e,
                           const struct provenance *by, int64_t *experiment)
{
    enum status st;
    sqlite3_stmt *s = NULL;
    char started[DATABASE_TIME];
    database_now(started);
    TRY(database_prepare(db,
                         "INSERT OR IGNORE INTO experiment(name, sha256, path, text, started)"
                         " VALUES(?1,?2,?3,?4,?5)",
                         &s));
    const char *text[] = {e->name, e->sha256, e->path, e->text, started};
    for (int i = 0; i < 5; i++)
        database_bind_text(s, i + 1, text[i]);
    TRY(database_finish(db, s));
    sqlite3_finalize(s);
    s = NULL;
    TRY(database_prepare(db, "SELECT id FROM experiment WHERE sha256=?1", &s));
    database_bind_text(s, 1, e->sha256);
    if (sqlite3_step(s) != SQLITE_ROW) {
        st = database_failed(db);
        goto out;
    }
    *experiment = sqlite3_column_int64(s, 0);
    db->by = by;
out:
    sqlite3_finalize(s);
    return st;
}

enum status database_add_members(struct sweep_database *db, int64_t experiment, bool finalist,
                                 size_t n, const size_t *number, const char (*hash)[DIGEST_HEX])
{
    enum status st = database_execute(db, "BEGIN IMMEDIATE");
    if (st != STATUS_OK)
        return st;
    if (finalist) { /* who is one may have changed */
        char sql[128];
        snprintf(sql, sizeof sql, "DELETE FROM member WHERE experiment=%lld AND finalist=1",
                 (long long)experiment);
        st = database_execute(db, sql);
    }
    for (size_t i = 0; i < n && st == STATUS_OK; i++) {
        sqlite3_bind_int64(db->add_member, 1, experiment);
        sqlite3_bind_int64(db->add_member, 2, (int64_t)number[i]);
        sqlite3_bind_int(db->add_member, 3, finalist);
        database_bind_text(db->add_member, 4, hash[i]);
        st = database_finish(db, db->add_member);
    }
    return database_conclude(db, st);
}

/* ---- reading */

bool database_is(const char *path)
{
    static const char magic[] = "SQLite format 3";
    char head[sizeof magic] = "";
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    bool all = fread(head, 1, sizeof head, f) == sizeof head;
    fclose(f);
    return all && memcmp(head, magic, sizeof magic) == 0;
}

static const char *column(sqlite3_stmt *s, int at)
{
    const unsigned char *text = sqlite3_column_text(s, at);
    return text ? (const char *)text : "";
}

enum status database_experiment(struct sweep_database *db, struct experiment *out,
                                int64_t *experiment)
{
    enum status st;
    sqlite3_stmt *s = NULL;
    TRY(database_prepare(db, "SELECT id, path, text FROM experiment ORDER BY id DESC LIMIT 1", &s));
    int code = sqlite3_step(s);
    if (code != SQLITE_ROW) {
        st = code == SQLITE_DONE ? error_set(STATUS_IO, "%s: no experiment in it", db->path)
                                 : database_failed(db);
        goto out;
    }
    *experiment = sqlite3_column_int64(s, 0);
    const char *path = column(s, 1), *text = column(s, 2);
    st = experiment_parse(path, text, strlen(text), NULL, out);
    if (st != STATUS_OK && st != STATUS_NOMEM)
        st = error_context(STATUS_IO, "%s", db->path);
out:
    sqlite3_finalize(s);
    return st;
}

enum status database_members(struct sweep_database *db, int64_t experiment, bool finalist,
                             const struct experiment *e, size_t *n, size_t **number,
                             char (**hash)[DIGEST_HEX])
{
    enum status st;
    sqlite3_stmt *s = NULL;
    size_t filled = 0, *numbers = malloc((e->points + 1) * sizeof *numbers);
    char(*hashes)[DIGEST_HEX] = malloc((e->points + 1) * sizeof *hashes);
    int code = SQLITE_DONE;
    if (!numbers || !hashes) {
        st = error_set(STATUS_NOMEM, "%zu points", e->points);
        goto out;
    }
    TRY(database_prepare(db,
                         "SELECT number, hash FROM member WHERE experiment=?1 AND finalist=?2"
                         " ORDER BY number",
                         &s));
    sqlite3_bind_int64(s, 1, experiment);
    sqlite3_bind_int(s, 2, finalist);
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        int64_t at = sqlite3_column_int64(s, 0);
        if (at < 0 || (size_t)at >= e->points || filled == e->points) {
            st = error_set(STATUS_IO, "%s: point %lld of an experiment of %zu", db->path,
                           (long long)at, e->points);
            goto out;
        }
        numbers[filled] = (size_t)at;
        snprintf(hashes[filled++], DIGEST_HEX, "%s", column(s, 1));
    }
    if (code != SQLITE_DONE) {
        st = database_failed(db);
        goto out;
    }
    *n = filled;
    *number = numbers;
    *hash = hashes;
    numbers = NULL;
    hashes = NULL;
out:
    sqlite3_finalize(s);
    free(numbers);
    free(hashes);
    return st;
}

enum status database_sources(struct sweep_database *db, int64_t experiment,
                             void (*tell)(void *context, const struct database_source *s),
                             void *context)
{
    enum status st;
    sqlite3_stmt *s = NULL;
    int code = SQLITE_DONE;
    TRY(database_prepare(db,
                         "SELECT version, command, host, min(finished), max(finished), count(*),"
                         " sum(cpu_s) FROM provenance WHERE hash IN"
                         " (SELECT hash FROM member WHERE experiment=?1)"
                         " GROUP BY version, command, host ORDER BY 4, 2, 3",
                         &s));
    sqlite3_bind_int64(s, 1, experiment);
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        const struct database_source source = {
            .version = column(s, 0),
            .command = column(s, 1),
            .host = column(s, 2),
            .first = column(s, 3),
            .last = column(s, 4),
            .points = (size_t)sqlite3_column_int64(s, 5),
            .cpu_s = sqlite3_column_double(s, 6),
        };
        tell(context, &source);
    }
    if (code != SQLITE_DONE)
        st = database_failed(db);
out:
    sqlite3_finalize(s);
    return st;
}

/* ---- other files */

static enum status copy_points(struct sweep_database *db, size_t *added)
{
    enum status st;
    int64_t application, version, before, after;
    static const char *const tables[] = {"parameter", "provenance", "result", "point"};
    char sql[256];
    TRY(database_ask(db, "PRAGMA other.application_id", &application));
    TRY(database_ask(db, "PRAGMA other.user_version", &version));
    if (application != DATABASE_APPLICATION || version != DATABASE_VERSION)
        return error_set(STATUS_IO, "not of this foreline sweep");
    TRY(database_ask(db, "SELECT count(*) FROM point", &before));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT OR REPLACE INTO main.%s SELECT * FROM other.%s WHERE hash NOT IN"
                 " (SELECT hash FROM main.point WHERE status <> 'failed')",
                 tables[i], tables[i]);
        TRY(database_execute(db, sql));
    }
    TRY(database_ask(db, "SELECT count(*) FROM point", &after));
    *added = (size_t)(after - before);
out:
    return st;
}

enum status database_merge(struct sweep_database *db, const char *path, size_t *added)
{
    enum status st;
    sqlite3_stmt *s = NULL;
    TRY(database_prepare(db, "ATTACH ?1 AS other", &s));
    database_bind_text(s, 1, path);
    TRY(database_finish(db, s));
    st = database_execute(db, "BEGIN IMMEDIATE");
    if (st == STATUS_OK)
        st = database_conclude(db, copy_points(db, added));
    sqlite3_finalize(s);
    s = NULL;
    if (st != STATUS_OK)
        st = error_context(st, "%s", path);
    sqlite3_exec(db->handle, "DETACH other", NULL, NULL, NULL);
out:
    sqlite3_finalize(s);
    return st;
}

enum status database_check(struct sweep_database *db)
{
    enum status st;
    sqlite3_stmt *s = NULL;
    TRY(database_prepare(db, "PRAGMA integrity_check", &s));
    int code = sqlite3_step(s);
    const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    if (code != SQLITE_ROW)
        st = database_failed(db);
    else if (!text || strcmp(text, "ok") != 0)
        st = error_set(STATUS_IO, "%s: damaged: %s", db->path, text ? text : "");
out:
    sqlite3_finalize(s);
    return st;
}
