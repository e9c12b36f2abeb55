/* Experiments of a database: what they are, which points they have, who computed them; and the
 * points of other databases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/provenance.h"
#include "study/database_handle.h"

/* ---- writing */

/* An experiment is known by the SHA-256 of its text: the same file again is the same experiment,
 * an edited one another, whose points are shared by their hashes. */
enum status database_begin(struct database *db, const struct experiment *e,
                           const struct provenance *by, int64_t *experiment)
{
    char started[CLOCK_UTC];
    PASS(database_run(db,
                      "INSERT OR IGNORE INTO experiment(name, sha256, path, text, started)"
                      " VALUES(?1,?2,?3,?4,?5)",
                      NULL, NULL, "ttttt", e->name, e->sha256, e->path, e->text,
                      clock_utc(NULL, started)));
    PASS(database_run(db, "SELECT id FROM experiment WHERE sha256=?1", database_number, experiment,
                      "t", e->sha256));
    db->by = by;
    return STATUS_OK;
}

/* The name tells experiments apart, as it does their files: an edited file keeps it. */
enum status database_strangers(struct database *db, const struct experiment *e, int64_t *n)
{
    *n = 0;
    return database_run(db,
                        "SELECT count(*) FROM experiment WHERE NOT EXISTS"
                        " (SELECT 1 FROM experiment WHERE name=?1)",
                        database_number, n, "t", e->name);
}

/* Numbers of points belong to an experiment, hashes to what was computed; this table says which is
 * which. */
enum status database_add_members(struct database *db, int64_t experiment, bool finalist, size_t n,
                                 const size_t *number, const char (*hash)[DIGEST_HEX])
{
    enum status st = database_execute(db, "BEGIN IMMEDIATE");
    if (st != STATUS_OK)
        return st;
    if (finalist) /* who is one may have changed */
        st = database_run(db, "DELETE FROM member WHERE experiment=?1 AND finalist=1", NULL, NULL,
                          "i", experiment);
    for (size_t i = 0; i < n && st == STATUS_OK; i++)
        st = database_run(db, "INSERT OR REPLACE INTO member VALUES(?1,?2,?3,?4)", NULL, NULL,
                          "iiit", experiment, (int64_t)number[i], (int64_t)finalist, hash[i]);
    return database_conclude(db, st);
}

/* ---- reading */

/* By the first 16 bytes, which SQLite's file format fixes. */
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

struct experiment_reading {
    struct experiment e;
    int64_t id; /* -1: no experiment was read */
};

/* The text was checked when it was stored; values are not checked again, as a later version may
 * know other settings. */
static enum status take_experiment(void *context, sqlite3_stmt *s)
{
    struct experiment_reading *r = context;
    const char *path = database_text(s, 1), *text = database_text(s, 2);
    r->id = sqlite3_column_int64(s, 0);
    return experiment_parse(path, text, strlen(text), NULL, &r->e);
}

enum status database_experiment(struct database *db, struct experiment *out, int64_t *experiment)
{
    struct experiment_reading r = {.id = -1};
    enum status st =
        database_run(db, "SELECT id, path, text FROM experiment ORDER BY id DESC LIMIT 1",
                     take_experiment, &r, "");
    if (st == STATUS_PARSE)
        return error_context(STATUS_IO, "%s", db->path);
    if (st == STATUS_OK && r.id < 0)
        st = error_set(
            STATUS_IO,
            "%s: database has no experiment; run foreline sweep again into another file with -o",
            db->path);
    if (st != STATUS_OK) {
        experiment_free(&r.e);
        return st;
    }
    *out = r.e;
    *experiment = r.id;
    return STATUS_OK;
}

struct members {
    const struct database *db;
    size_t points; /* of the experiment: numbers are below */
    size_t n, *number;
    char (*hash)[DIGEST_HEX];
};

/* A file from elsewhere may say anything: numbers must be those of points. */
static enum status take_member(void *context, sqlite3_stmt *s)
{
    struct members *m = context;
    int64_t at = sqlite3_column_int64(s, 0);
    if (at < 0 || (size_t)at >= m->points || m->n == m->points)
        return error_set(
            STATUS_IO, "%s: database refers to point %lld, but its experiment has only %zu points",
            m->db->path, (long long)at, m->points);
    m->number[m->n] = (size_t)at;
    snprintf(m->hash[m->n++], DIGEST_HEX, "%s", database_text(s, 1));
    return STATUS_OK;
}

enum status database_members(struct database *db, int64_t experiment, bool finalist,
                             const struct experiment *e, size_t *n, size_t **number,
                             char (**hash)[DIGEST_HEX])
{
    enum status st;
    struct members m = {.db = db, .points = e->points};
    TRY(ARRAY_NEW(m.number, e->points));
    TRY(ARRAY_NEW(m.hash, e->points));
    TRY(database_run(db,
                     "SELECT number, hash FROM member WHERE experiment=?1 AND finalist=?2"
                     " ORDER BY number",
                     take_member, &m, "ii", experiment, (int64_t)finalist));
    *n = m.n;
    *number = m.number;
    *hash = m.hash;
    return STATUS_OK;
out:
    free(m.number);
    free(m.hash);
    return st;
}

struct listener {
    void (*tell)(void *context, const struct database_source *s);
    void *context;
};

static enum status take_source(void *context, sqlite3_stmt *s)
{
    const struct listener *l = context;
    const struct database_source source = {
        .version = database_text(s, 0),
        .command = database_text(s, 1),
        .host = database_text(s, 2),
        .first = database_text(s, 3),
        .last = database_text(s, 4),
        .points = (size_t)sqlite3_column_int64(s, 5),
        .cpu_s = sqlite3_column_double(s, 6),
    };
    l->tell(l->context, &source);
    return STATUS_OK;
}

enum status database_sources(struct database *db, int64_t experiment,
                             void (*tell)(void *context, const struct database_source *s),
                             void *context)
{
    struct listener l = {tell, context};
    return database_run(db,
                        "SELECT version, command, host, min(finished), max(finished), count(*),"
                        " sum(cpu_s) FROM provenance WHERE hash IN"
                        " (SELECT hash FROM member WHERE experiment=?1)"
                        " GROUP BY version, command, host ORDER BY 4, 2, 3",
                        take_source, &l, "i", experiment);
}

/* ---- other files */

/* Points of the attached database that are not here, or only as failures. The table `point` is
 * copied last, because the others ask it what is here. */
static enum status copy_points(struct database *db, size_t *added)
{
    int64_t application, version, before, after;
    static const char *const tables[] = {"parameter", "provenance", "result", "point"};
    char sql[256];
    PASS(database_ask(db, "PRAGMA other.application_id", &application));
    PASS(database_ask(db, "PRAGMA other.user_version", &version));
    if (application != DATABASE_APPLICATION || version != DATABASE_VERSION)
        return error_set(STATUS_IO, "database was not written by foreline sweep");
    PASS(database_ask(db, "SELECT count(*) FROM point", &before));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT OR REPLACE INTO main.%s SELECT * FROM other.%s WHERE hash NOT IN"
                 " (SELECT hash FROM main.point WHERE status <> 'failed')",
                 tables[i], tables[i]);
        PASS(database_execute(db, sql));
    }
    PASS(database_ask(db, "SELECT count(*) FROM point", &after));
    *added = (size_t)(after - before);
    return STATUS_OK;
}

/* Attach, copy in one transaction, detach. The detaching must happen also when the copying fails,
 * and its own failure leaves nothing behind that matters. */
enum status database_merge(struct database *db, const char *path, size_t *added)
{
    enum status st;
    TRY(database_run(db, "ATTACH ?1 AS other", NULL, NULL, "t", path));
    st = database_execute(db, "BEGIN IMMEDIATE");
    if (st == STATUS_OK)
        st = database_conclude(db, copy_points(db, added));
    if (st != STATUS_OK)
        st = error_context(st, "%s", path);
    sqlite3_exec(db->handle, "DETACH other", NULL, NULL, NULL);
out:
    return st;
}
