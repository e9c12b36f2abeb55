/* The file: its schema, opening it under a lock, and its points. Columns of results, and the
 * statements about them, follow from the table of result.h. */
#include "study/database.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/looks.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "study/database_handle.h"

enum { LOCKED = 10, QUERY = 60 }; /* s: other programs may hold it; a step of a query may take */

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS experiment("
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL UNIQUE,"
    " path TEXT NOT NULL, text TEXT NOT NULL, started TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS member("
    " experiment INTEGER NOT NULL REFERENCES experiment(id), number INTEGER NOT NULL,"
    " finalist INTEGER NOT NULL, hash TEXT NOT NULL,"
    " PRIMARY KEY(experiment, number, finalist)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS point("
    " hash TEXT PRIMARY KEY, status TEXT NOT NULL, reason TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS parameter("
    " hash TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,"
    " PRIMARY KEY(hash, name)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS provenance("
    " hash TEXT PRIMARY KEY, version TEXT NOT NULL, command TEXT NOT NULL, host TEXT NOT NULL,"
    " process INTEGER NOT NULL, finished TEXT NOT NULL, cpu_s REAL NOT NULL) WITHOUT ROWID;";

/* ---- errors */

/* In words that say what to do. The code of the handle is that of the last call, so it must be
 * asked for before anything else is done with the database. */
enum status database_failed(const struct database *db)
{
    int code = sqlite3_errcode(db->handle);
    char looks[LOOKS], more[LIMIT_MORE];
    if (code == SQLITE_NOMEM)
        return error_set(STATUS_NOMEM, "out of memory");
    if (code == SQLITE_NOTADB)
        return error_set(STATUS_IO, "%s: not an SQLite database of foreline sweep%s", db->path,
                         looks_like_file(db->path, looks));
    if (code == SQLITE_INTERRUPT)
        return error_set(STATUS_IO, "%s: timeout: a query takes longer than %g s%s", db->path,
                         limit_wait(QUERY), limit_more(LIMIT_wait, more));
    if (code == SQLITE_READONLY)
        return error_set(STATUS_IO, "%s: database is read-only", db->path);
    if (code == SQLITE_CORRUPT)
        return error_set(STATUS_IO, "%s: database is damaged (%s). Try sqlite3 %s .recover",
                         db->path, sqlite3_errmsg(db->handle), db->path);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return error_set(STATUS_IO, "%s: timeout: locked by another program for more than %g s",
                         db->path, limit_wait(LOCKED));
    return error_set(STATUS_IO, "%s: %s", db->path, sqlite3_errmsg(db->handle));
}

/* What takes longer than anything of ours is ended. */
static void wind(struct database *db)
{
    db->until_s = clock_now() + limit_wait(QUERY);
}

enum status database_execute(struct database *db, const char *sql)
{
    wind(db);
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? STATUS_OK
                                                                        : database_failed(db);
}

/* ---- statements */

static int bind_text(sqlite3_stmt *s, int at, const char *text)
{
    return sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT);
}

static int bind_result(sqlite3_stmt *s, int first, const struct point_result *r)
{
    int code = SQLITE_OK;
    for (size_t i = 0; i < result_columns_n && code == SQLITE_OK; i++) {
        const struct result_column *c = &result_columns[i];
        const void *at = (const char *)r + c->offset;
        code = c->kind == RESULT_TEXT ? bind_text(s, (int)i + first, at)
               : c->kind == RESULT_REAL
                   ? sqlite3_bind_double(s, (int)i + first, *(const double *)at)
                   : sqlite3_bind_int64(s, (int)i + first, *(const int64_t *)at);
    }
    return code;
}

/* Parameters from the first one on; SQLite's code. */
static int bind(sqlite3_stmt *s, const char *types, va_list value)
{
    int code = SQLITE_OK;
    for (int at = 1; *types && code == SQLITE_OK; types++, at++)
        code = *types == 't'   ? bind_text(s, at, va_arg(value, const char *))
               : *types == 'd' ? sqlite3_bind_double(s, at, va_arg(value, double))
               : *types == 'i' ? sqlite3_bind_int64(s, at, va_arg(value, int64_t))
                               : bind_result(s, at, va_arg(value, const struct point_result *));
    return code;
}

/* The statement of this text, NULL when it cannot be prepared. Texts are compared as addresses:
 * they are literals, or live in the handle. */
static sqlite3_stmt *prepared(struct database *db, const char *sql)
{
    for (size_t i = 0; i < db->statements; i++)
        if (db->statement[i].sql == sql)
            return db->statement[i].statement;
    struct database_statement *new = &db->statement[db->statements];
    assert(db->statements < DATABASE_STATEMENTS);
    if (sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &new->statement, NULL))
        return NULL;
    new->sql = sql;
    db->statements++;
    return new->statement;
}

static int database_step(struct database *db, sqlite3_stmt *s)
{
    wind(db);
    return sqlite3_step(s);
}

enum status database_run(struct database *db, const char *sql,
                         enum status (*row)(void *context, sqlite3_stmt *s), void *context,
                         const char *types, ...)
{
    enum status st = STATUS_OK;
    va_list value;
    int code;
    wind(db);
    sqlite3_stmt *s = prepared(db, sql);
    if (!s)
        return database_failed(db);
    va_start(value, types);
    code = bind(s, types, value);
    va_end(value);
    if (code != SQLITE_OK)
        st = database_failed(db);
    while (st == STATUS_OK && (code = database_step(db, s)) == SQLITE_ROW)
        st = row ? row(context, s) : STATUS_OK;
    if (st == STATUS_OK && code != SQLITE_DONE)
        st = database_failed(db);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return st;
}

enum status database_number(void *context, sqlite3_stmt *s)
{
    *(int64_t *)context = sqlite3_column_int64(s, 0);
    return STATUS_OK;
}

enum status database_ask(struct database *db, const char *sql, int64_t *out)
{
    *out = -1;
    return database_run(db, sql, database_number, out, "");
}

const char *database_text(sqlite3_stmt *s, int column)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    return text ? (const char *)text : "";
}

/* ---- opening */

/* One process at a time may write. SQLite's own locks are taken and left with every transaction, so
 * that two sweeps would compute the same points; this one is held while the database is open. POSIX
 * locks end with their process, however it ends. The message names the process that has it. */
static enum status take_lock(struct database *db)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    /* no link is followed, and what somebody has written there stays */
    db->lock = open(db->lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (db->lock < 0)
        return error_set(STATUS_IO, "%s: %s", db->path, strerror(errno));
    if (fcntl(db->lock, F_SETLK, &lock) == 0)
        return STATUS_OK;
    if (errno != EACCES && errno != EAGAIN)
        return error_set(STATUS_IO, "%s: %s", db->lock_path, strerror(errno));
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    (void)fcntl(db->lock, F_GETLK, &lock);
    close(db->lock);
    db->lock = -1;
    return error_set(STATUS_IO,
                     "%s: another sweep is writing to it (process %ld); wait for it, or choose "
                     "another database with -o",
                     db->path, (long)lock.l_pid);
}

/* `before`, then ", " and the name of each column, with its type if `typed`, then `after`: schema
 * and queries of the table of results follow from result.h. */
static const char *list_columns(const char *before, bool typed, const char *after,
                                char sql[DATABASE_SQL])
{
    static const char *const types[] = {[RESULT_TEXT] = " TEXT NOT NULL",
                                        [RESULT_REAL] = " REAL NOT NULL",
                                        [RESULT_INTEGER] = " INTEGER NOT NULL"};
    size_t n = (size_t)snprintf(sql, DATABASE_SQL, "%s", before);
    for (size_t i = 0; i < result_columns_n; i++)
        n += (size_t)snprintf(sql + n, DATABASE_SQL - n, ", %s%s", result_columns[i].name,
                              typed ? types[result_columns[i].kind] : "");
    snprintf(sql + n, DATABASE_SQL - n, "%s", after);
    return sql;
}

/* Columns of results are those of result.h in that order; statements that list them are written
 * once for each handle. */
static void write_statements(struct database *db)
{
    list_columns("SELECT status, reason, cpu_s", false,
                 " FROM point LEFT JOIN result USING(hash) LEFT JOIN provenance USING(hash)"
                 " WHERE hash=?1",
                 db->get);
    size_t n = (size_t)snprintf(db->put, sizeof db->put, "INSERT OR REPLACE INTO result VALUES(?1");
    for (size_t i = 0; i < result_columns_n; i++)
        n += (size_t)snprintf(db->put + n, sizeof db->put - n, ",?%zu", i + 2);
    snprintf(db->put + n, sizeof db->put - n, ")");
}

/* Is it empty, or ours? */
static enum status check_version(struct database *db)
{
    int64_t tables, application, version;
    char sql[128];
    PASS(database_protect(db));
    PASS(database_ask(db, "SELECT count(*) FROM sqlite_schema", &tables));
    PASS(database_ask(db, "PRAGMA application_id", &application));
    PASS(database_ask(db, "PRAGMA user_version", &version));
    if ((tables > 0 || db->lock < 0) && application != DATABASE_APPLICATION)
        return error_set(STATUS_IO, "%s: not a database of foreline sweep", db->path);
    if (version > DATABASE_VERSION)
        return error_set(
            STATUS_IO,
            "%s: written by a newer foreline (format %lld, this one reads %d); upgrade foreline",
            db->path, (long long)version, DATABASE_VERSION);
    if (application == DATABASE_APPLICATION && version < DATABASE_VERSION)
        return error_set(STATUS_IO,
                         "%s: written by an older foreline (format %lld, this one reads %d); run "
                         "the sweep again into another file with -o",
                         db->path, (long long)version, DATABASE_VERSION);
    if (application == DATABASE_APPLICATION)
        return database_check_schema(db);
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             DATABASE_APPLICATION, DATABASE_VERSION);
    return database_execute(db, sql);
}

/* Other programs may hold SQLite's lock for a moment: they are waited for up to LOCKED. */
static enum status open_handle(struct database *db, int flags)
{
    if (sqlite3_open_v2(db->path, &db->handle, flags, NULL) != SQLITE_OK)
        return db->handle ? database_failed(db) : error_set(STATUS_NOMEM, "out of memory");
    sqlite3_busy_timeout(db->handle, (int)(limit_wait(LOCKED) * 1e3));
    return check_version(db);
}

/* The write-ahead log lets readers read while points are put; synchronous=NORMAL makes a loss of
 * power cost the last transactions, but never the file. */
static enum status open_file(struct database *db)
{
    struct stat s;
    char sql[DATABASE_SQL];
    if (stat(db->path, &s) == 0 && !S_ISREG(s.st_mode))
        return error_set(STATUS_IO, "%s: not a regular file", db->path);
    if (access(db->path, F_OK) == 0 && access(db->path, W_OK) != 0)
        return error_set(STATUS_IO, "%s: %s", db->path, strerror(errno));
    PASS(take_lock(db));
    PASS(open_handle(db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    PASS(database_execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"));
    PASS(database_execute(db, "BEGIN IMMEDIATE"));
    PASS(database_execute(db, schema));
    PASS(
        database_execute(db, list_columns("CREATE TABLE IF NOT EXISTS result(hash TEXT PRIMARY KEY",
                                          true, ") WITHOUT ROWID", sql)));
    return database_execute(db, "COMMIT");
}

/* Nobody can write where we cannot: without the write-ahead log's index, for which SQLite wants to
 * write into the folder. A log that still holds something needs a folder that can be written to. */
static bool is_unchanging(const struct database *db)
{
    struct stat log;
    char folder[PATH_MAX], path[PATH_MAX];
    const char *slash = strrchr(db->path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - db->path) + 1 : 1,
             slash ? db->path : ".");
    snprintf(path, sizeof path, "%.4000s-wal", db->path);
    return access(folder, W_OK) != 0 && (stat(path, &log) != 0 || log.st_size == 0);
}

static enum status open_unchanging(struct database *db)
{
    enum status st;
    struct file_text uri = {0};
    PASS(file_text_open(&uri));
    fputs("file:", uri.stream);
    for (const unsigned char *c = (const unsigned char *)db->path; *c; c++)
        if (strchr("%?#", *c))
            fprintf(uri.stream, "%%%02x", *c);
        else
            putc(*c, uri.stream);
    fputs("?immutable=1", uri.stream);
    TRY(file_text_close(&uri, STATUS_OK));
    if (sqlite3_open_v2(uri.text, &db->handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL))
        st = db->handle ? database_failed(db) : error_set(STATUS_NOMEM, "out of memory");
    else
        st = check_version(db);
out:
    free(uri.text);
    return st;
}

/* Without a lock: it may be written meanwhile. */
static enum status open_to_read(struct database *db)
{
    struct stat s;
    if (stat(db->path, &s) != 0)
        return error_set(STATUS_IO, "%s: %s", db->path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return error_set(STATUS_IO, "%s: not a regular file", db->path);
    return is_unchanging(db) ? open_unchanging(db) : open_handle(db, SQLITE_OPEN_READONLY);
}

static enum status database_open_file(const char *path, enum status (*how)(struct database *db),
                                      struct database **out)
{
    enum status st;
    struct database *db;
    TRY(ARRAY_NEW(db, 1));
    db->lock = -1;
    size_t n = strlen(path) + sizeof "-lock";
    TRY(ARRAY_NEW(db->lock_path, n));
    snprintf(db->lock_path, n, "%s-lock", path);
    TRY(text_copy(path, &db->path));
    if (gethostname(db->host, sizeof db->host - 1) != 0)
        snprintf(db->host, sizeof db->host, "unknown");
    write_statements(db);
    TRY(how(db));
    MOVE(out, db);
out:
    database_close(db);
    return st;
}

enum status database_open(const char *path, struct database **out)
{
    return database_open_file(path, open_file, out);
}

enum status database_open_to_read(const char *path, struct database **out)
{
    return database_open_file(path, open_to_read, out);
}

/* Still locked, so nobody else has it. It is ours if it is the file that was opened, and empty. */
static void remove_lock(const struct database *db)
{
    struct stat opened, there;
    if (fstat(db->lock, &opened) == 0 && lstat(db->lock_path, &there) == 0 &&
        opened.st_dev == there.st_dev && opened.st_ino == there.st_ino && S_ISREG(there.st_mode) &&
        there.st_size == 0)
        unlink(db->lock_path);
}

void database_close(struct database *db)
{
    if (!db)
        return;
    for (size_t i = 0; i < db->statements; i++)
        sqlite3_finalize(db->statement[i].statement);
    sqlite3_close(db->handle);
    if (db->lock >= 0) {
        remove_lock(db);
        close(db->lock);
    }
    free(db->lock_path);
    free(db->path);
    free(db);
}

/* ---- parts of statements */

/* The first error is the one to tell; a rollback that fails after it says nothing new. */
enum status database_conclude(struct database *db, enum status st)
{
    if (st == STATUS_OK)
        st = database_execute(db, "COMMIT");
    if (st != STATUS_OK) /* the error is told already */
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

/* ---- points */

/* What a row of db->get says. */
struct lookup {
    const struct database *db;
    struct point_result *out;
    bool found;
};

static enum status take_result(void *context, sqlite3_stmt *s)
{
    struct lookup *l = context;
    struct point_result r = {0};
    const char *status = database_text(s, 0);
    size_t k = 0;
    while (k < POINT_STATUSES && strcmp(point_status_names[k], status) != 0)
        k++;
    if (k == POINT_STATUSES)
        return error_set(STATUS_IO, "%s: a point has unknown status '%s'", l->db->path, status);
    r.status = (enum point_status)k;
    snprintf(r.reason, sizeof r.reason, "%s", database_text(s, 1));
    r.cpu_s = sqlite3_column_double(s, 2);
    for (size_t i = 0; i < result_columns_n; i++) {
        const struct result_column *c = &result_columns[i];
        void *at = (char *)&r + c->offset;
        if (c->kind == RESULT_TEXT)
            snprintf(at, c->size, "%s", database_text(s, (int)i + 3));
        else if (c->kind == RESULT_REAL)
            *(double *)at = sqlite3_column_double(s, (int)i + 3);
        else
            *(int64_t *)at = sqlite3_column_int64(s, (int)i + 3);
    }
    *l->out = r;
    l->found = true;
    return STATUS_OK;
}

enum status database_get(struct database *db, const char *hash, bool *found,
                         struct point_result *out)
{
    struct lookup l = {.db = db, .out = out};
    enum status st = database_run(db, db->get, take_result, &l, "t", hash);
    *found = l.found;
    return st;
}

/* All rows of a point, in one transaction of the caller. INSERT OR REPLACE takes the place of a
 * point that failed before. */
static enum status put_all(struct database *db, const char *hash,
                           const struct experiment_setting *const *setting, size_t n,
                           const struct point_result *r)
{
    char finished[CLOCK_UTC];
    clock_utc(NULL, finished);
    PASS(database_run(db, "INSERT OR REPLACE INTO point VALUES(?1,?2,?3)", NULL, NULL, "ttt", hash,
                      point_status_names[r->status], r->reason));
    for (size_t i = 0; i < n; i++)
        PASS(database_run(db, "INSERT OR REPLACE INTO parameter VALUES(?1,?2,?3)", NULL, NULL,
                          "ttt", hash, setting[i]->key, setting[i]->value));
    PASS(database_run(db, db->put, NULL, NULL, "tr", hash, r));
    return database_run(db, "INSERT OR REPLACE INTO provenance VALUES(?1,?2,?3,?4,?5,?6,?7)", NULL,
                        NULL, "ttttitd", hash, db->by->version, db->by->command, db->host,
                        (int64_t)getpid(), finished, r->cpu_s);
}

enum status database_put(struct database *db, const char *hash,
                         const struct experiment_setting *const *setting, size_t n,
                         const struct point_result *r)
{
    PASS(result_check(r));
    PASS(database_execute(db, "BEGIN IMMEDIATE"));
    return database_conclude(db, put_all(db, hash, setting, n, r));
}
