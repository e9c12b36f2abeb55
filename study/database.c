#include "study/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/provenance.h"
#include "core/text.h"
#include "study/database_handle.h"

enum { PATIENCE_MS = 10000, SQL = 4096 };

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

enum status database_failed(const struct sweep_database *db)
{
    int code = sqlite3_errcode(db->handle);
    if (code == SQLITE_NOMEM)
        return error_set(STATUS_NOMEM, "out of memory");
    if (code == SQLITE_NOTADB)
        return error_set(STATUS_IO, "%s: not an SQLite database", db->path);
    if (code == SQLITE_READONLY)
        return error_set(STATUS_IO, "%s: cannot be written to", db->path);
    if (code == SQLITE_CORRUPT)
        return error_set(STATUS_IO, "%s: damaged (%s); sqlite3's .recover may save what is in it",
                         db->path, sqlite3_errmsg(db->handle));
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return error_set(STATUS_IO, "%s: locked by another program for more than %d s", db->path,
                         PATIENCE_MS / 1000);
    return error_set(STATUS_IO, "%s: %s", db->path, sqlite3_errmsg(db->handle));
}

enum status database_execute(struct sweep_database *db, const char *sql)
{
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? STATUS_OK
                                                                        : database_failed(db);
}

enum status database_finish(struct sweep_database *db, sqlite3_stmt *s)
{
    int code = sqlite3_step(s);
    enum status st = code == SQLITE_DONE ? STATUS_OK : database_failed(db);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return st;
}

enum status database_prepare(struct sweep_database *db, const char *sql, sqlite3_stmt **out)
{
    int code = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    return code == SQLITE_OK ? STATUS_OK : database_failed(db);
}

enum status database_ask(struct sweep_database *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *s = NULL;
    enum status st = STATUS_OK;
    if (sqlite3_prepare_v2(db->handle, sql, -1, &s, NULL) != SQLITE_OK ||
        sqlite3_step(s) != SQLITE_ROW)
        st = database_failed(db);
    else
        *out = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return st;
}

void database_bind_text(sqlite3_stmt *s, int at, const char *text)
{
    (void)sqlite3_bind_text(s, at, text, -1, SQLITE_TRANSIENT); /* a failure shows in the step */
}

/* ---- opening */

static enum status take_lock(struct sweep_database *db)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    db->lock = open(db->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
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
    return error_set(STATUS_IO, "%s: another sweep writes to it, process %ld", db->path,
                     (long)lock.l_pid);
}

static enum status create_result(struct sweep_database *db)
{
    static const char *const types[] = {
        [SWEEP_TEXT] = "TEXT", [SWEEP_REAL] = "REAL", [SWEEP_INTEGER] = "INTEGER"};
    char sql[SQL];
    int n = snprintf(sql, sizeof sql, "CREATE TABLE IF NOT EXISTS result(hash TEXT PRIMARY KEY");
    for (size_t i = 0; i < sweep_columns_n; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, ", %s %s NOT NULL", sweep_columns[i].name,
                      types[sweep_columns[i].kind]);
    snprintf(sql + n, sizeof sql - (size_t)n, ") WITHOUT ROWID");
    return database_execute(db, sql);
}

/* Is it empty, or ours? */
static enum status check_version(struct sweep_database *db)
{
    enum status st;
    int64_t tables, application, version;
    char sql[128];
    TRY(database_ask(db, "SELECT count(*) FROM sqlite_schema", &tables));
    TRY(database_ask(db, "PRAGMA application_id", &application));
    TRY(database_ask(db, "PRAGMA user_version", &version));
    if ((tables > 0 || db->lock < 0) && application != DATABASE_APPLICATION)
        return error_set(STATUS_IO, "%s: a database, but not of foreline sweep", db->path);
    if (version > DATABASE_VERSION)
        return error_set(STATUS_IO, "%s: of a newer foreline (format %lld, this knows %d)",
                         db->path, (long long)version, DATABASE_VERSION);
    if (application == DATABASE_APPLICATION && version < DATABASE_VERSION)
        return error_set(STATUS_IO, "%s: of an older foreline (format %lld, this knows %d)",
                         db->path, (long long)version, DATABASE_VERSION);
    if (application == DATABASE_APPLICATION)
        goto out;
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             DATABASE_APPLICATION, DATABASE_VERSION);
    TRY(database_execute(db, sql));
out:
    return st;
}

static enum status prepare_get(struct sweep_database *db)
{
    char get[SQL];
    int n = snprintf(get, sizeof get, "SELECT status, reason, cpu_s");
    for (size_t i = 0; i < sweep_columns_n; i++)
        n += snprintf(get + n, sizeof get - (size_t)n, ", %s", sweep_columns[i].name);
    snprintf(get + n, sizeof get - (size_t)n,
             " FROM point LEFT JOIN result USING(hash) LEFT JOIN provenance USING(hash)"
             " WHERE hash=?1");
    return database_prepare(db, get, &db->get);
}

static enum status prepare_all(struct sweep_database *db)
{
    enum status st;
    char put[SQL];
    int n = snprintf(put, sizeof put, "INSERT OR REPLACE INTO result VALUES(?1");
    for (size_t i = 0; i < sweep_columns_n; i++)
        n += snprintf(put + n, sizeof put - (size_t)n, ",?%zu", i + 2);
    snprintf(put + n, sizeof put - (size_t)n, ")");
    TRY(prepare_get(db));
    TRY(database_prepare(db, put, &db->put_result));
    TRY(database_prepare(db, "INSERT OR REPLACE INTO point VALUES(?1,?2,?3)", &db->put_point));
    TRY(database_prepare(db, "INSERT OR REPLACE INTO parameter VALUES(?1,?2,?3)",
                         &db->put_parameter));
    TRY(database_prepare(db, "INSERT OR REPLACE INTO provenance VALUES(?1,?2,?3,?4,?5,?6,?7)",
                         &db->put_provenance));
    TRY(database_prepare(db, "INSERT OR REPLACE INTO member VALUES(?1,?2,?3,?4)", &db->add_member));
out:
    return st;
}

static enum status open_file(struct sweep_database *db)
{
    enum status st;
    struct stat s;
    if (stat(db->path, &s) == 0 && !S_ISREG(s.st_mode))
        return error_set(STATUS_IO, "%s: not a regular file", db->path);
    if (access(db->path, F_OK) == 0 && access(db->path, W_OK) != 0)
        return error_set(STATUS_IO, "%s: %s", db->path, strerror(errno));
    TRY(take_lock(db));
    if (sqlite3_open_v2(db->path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK)
        return db->handle ? database_failed(db) : error_set(STATUS_NOMEM, "out of memory");
    sqlite3_extended_result_codes(db->handle, 0);
    sqlite3_busy_timeout(db->handle, PATIENCE_MS);
    TRY(check_version(db));
    TRY(database_execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"));
    TRY(database_execute(db, "BEGIN IMMEDIATE"));
    TRY(database_execute(db, schema));
    TRY(create_result(db));
    TRY(database_execute(db, "COMMIT"));
    TRY(prepare_all(db));
out:
    return st;
}

/* Without a lock: it may be written meanwhile. */
static enum status open_to_read(struct sweep_database *db)
{
    enum status st;
    struct stat s;
    if (stat(db->path, &s) != 0)
        return error_set(STATUS_IO, "%s: %s", db->path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return error_set(STATUS_IO, "%s: not a regular file", db->path);
    if (sqlite3_open_v2(db->path, &db->handle, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        return db->handle ? database_failed(db) : error_set(STATUS_NOMEM, "out of memory");
    sqlite3_busy_timeout(db->handle, PATIENCE_MS);
    TRY(check_version(db));
    TRY(prepare_get(db));
out:
    return st;
}

static enum status open_database(const char *path, enum status (*how)(struct sweep_database *db),
                                 struct sweep_database **out)
{
    enum status st;
    struct sweep_database *db = calloc(1, sizeof *db);
    if (!db)
        return error_set(STATUS_NOMEM, "out of memory");
    db->lock = -1;
    size_t n = strlen(path) + sizeof "-lock";
    db->lock_path = malloc(n);
    if (!db->lock_path) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    snprintf(db->lock_path, n, "%s-lock", path);
    TRY(text_copy(path, &db->path));
    if (gethostname(db->host, sizeof db->host - 1) != 0)
        snprintf(db->host, sizeof db->host, "unknown");
    TRY(how(db));
    *out = db;
    db = NULL;
out:
    database_close(db);
    return st;
}

enum status database_open(const char *path, struct sweep_database **out)
{
    return open_database(path, open_file, out);
}

enum status database_open_to_read(const char *path, struct sweep_database **out)
{
    return open_database(path, open_to_read, out);
}

void database_close(struct sweep_database *db)
{
    if (!db)
        return;
    sqlite3_stmt *all[] = {db->get,        db->put_point,      db->put_parameter,
                           db->put_result, db->put_provenance, db->add_member};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        sqlite3_finalize(all[i]);
    sqlite3_close(db->handle);
    if (db->lock >= 0) {
        unlink(db->lock_path); /* still locked: nobody else has it */
        close(db->lock);
    }
    free(db->lock_path);
    free(db->path);
    free(db);
}

/* ---- parts of statements */

void database_now(char text[DATABASE_TIME])
{
    time_t t = time(NULL);
    struct tm utc;
    strftime(text, DATABASE_TIME, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &utc));
}

enum status database_conclude(struct sweep_database *db, enum status st)
{
    if (st == STATUS_OK)
        st = database_execute(db, "COMMIT");
    if (st != STATUS_OK) /* the error is told already */
        sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return st;
}

/* ---- points */

static void copy_text(sqlite3_stmt *s, int column, char *to, size_t size)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    snprintf(to, size, "%s", text ? (const char *)text : "");
}

/* From a row of db->get. */
static enum status read_result(struct sweep_database *db, struct sweep_result *out)
{
    sqlite3_stmt *s = db->get;
    struct sweep_result r = {0};
    char status[SWEEP_NAME];
    size_t k = 0;
    copy_text(s, 0, status, sizeof status);
    while (k < SWEEP_STATUSES && strcmp(sweep_status_names[k], status) != 0)
        k++;
    if (k == SWEEP_STATUSES)
        return error_set(STATUS_IO, "%s: a point has status '%s'", db->path, status);
    r.status = (enum sweep_status)k;
    copy_text(s, 1, r.reason, sizeof r.reason);
    r.cpu_s = sqlite3_column_double(s, 2);
    for (size_t i = 0; i < sweep_columns_n; i++) {
        const struct sweep_column *c = &sweep_columns[i];
        void *at = (char *)&r + c->offset;
        if (c->kind == SWEEP_TEXT)
            copy_text(s, (int)i + 3, at, c->size);
        else if (c->kind == SWEEP_REAL)
            *(double *)at = sqlite3_column_double(s, (int)i + 3);
        else
            *(int64_t *)at = sqlite3_column_int64(s, (int)i + 3);
    }
    *out = r;
    return STATUS_OK;
}

enum status database_get(struct sweep_database *db, const char *hash, bool *found,
                         struct sweep_result *out)
{
    database_bind_text(db->get, 1, hash);
    int code = sqlite3_step(db->get);
    enum status st = code == SQLITE_ROW    ? read_result(db, out)
                     : code == SQLITE_DONE ? STATUS_OK
                                           : database_failed(db);
    *found = code == SQLITE_ROW;
    sqlite3_reset(db->get);
    return st;
}

static enum status put_result(struct sweep_database *db, const char *hash,
                              const struct sweep_result *r)
{
    database_bind_text(db->put_result, 1, hash);
    for (size_t i = 0; i < sweep_columns_n; i++) {
        const struct sweep_column *c = &sweep_columns[i];
        const void *at = (const char *)r + c->offset;
        if (c->kind == SWEEP_TEXT)
            database_bind_text(db->put_result, (int)i + 2, at);
        else if (c->kind == SWEEP_REAL)
            sqlite3_bind_double(db->put_result, (int)i + 2, *(const double *)at);
        else
            sqlite3_bind_int64(db->put_result, (int)i + 2, *(const int64_t *)at);
    }
    return database_finish(db, db->put_result);
}

static enum status put_provenance(struct sweep_database *db, const char *hash, double cpu_s)
{
    char finished[DATABASE_TIME];
    database_now(finished);
    database_bind_text(db->put_provenance, 1, hash);
    database_bind_text(db->put_provenance, 2, db->by->version);
    database_bind_text(db->put_provenance, 3, db->by->command);
    database_bind_text(db->put_provenance, 4, db->host);
    sqlite3_bind_int64(db->put_provenance, 5, getpid());
    database_bind_text(db->put_provenance, 6, finished);
    sqlite3_bind_double(db->put_provenance, 7, cpu_s);
    return database_finish(db, db->put_provenance);
}

static enum status put_all(struct sweep_database *db, const char *hash,
                           const struct experiment_setting *const *setting, size_t n,
                           const struct sweep_result *r)
{
    enum status st;
    database_bind_text(db->put_point, 1, hash);
    database_bind_text(db->put_point, 2, sweep_status_names[r->status]);
    database_bind_text(db->put_point, 3, r->reason);
    TRY(database_finish(db, db->put_point));
    for (size_t i = 0; i < n; i++) {
        database_bind_text(db->put_parameter, 1, hash);
        database_bind_text(db->put_parameter, 2, setting[i]->key);
        database_bind_text(db->put_parameter, 3, setting[i]->value);
        TRY(database_finish(db, db->put_parameter));
    }
    TRY(put_result(db, hash, r));
    TRY(put_provenance(db, hash, r->cpu_s));
out:
    return st;
}

enum status database_put(struct sweep_database *db, const char *hash,
                         const struct experiment_setting *const *setting, size_t n,
                         const struct sweep_result *r)
{
    enum status st = database_execute(db, "BEGIN IMMEDIATE");
    if (st != STATUS_OK)
        return st;
    return database_conclude(db, put_all(db, hash, setting, n, r));
}
