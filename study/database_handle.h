/* database_handle.h - an open database of sweeps. Private. */
#ifndef STUDY_DATABASE_HANDLE_H
#define STUDY_DATABASE_HANDLE_H

#include <sqlite3.h>

#include "study/database.h"

enum { DATABASE_APPLICATION = 0x666f7265, DATABASE_VERSION = 2, DATABASE_HOST = 256 };

struct sweep_database {
    sqlite3 *handle;
    char *path, *lock_path;
    int lock; /* -1: none */
    sqlite3_stmt *get, *put_point, *put_parameter, *put_result, *put_provenance, *add_member;
    const struct provenance *by;
    char host[DATABASE_HOST];
};

/* What SQLite's last error means, with the path. */
enum status database_failed(const struct sweep_database *db);
enum status database_execute(struct sweep_database *db, const char *sql) MUST_CHECK;
enum status database_prepare(struct sweep_database *db, const char *sql,
                             sqlite3_stmt **out) MUST_CHECK;
/* Run a statement that gives no rows, and make it ready for the next time. */
enum status database_finish(struct sweep_database *db, sqlite3_stmt *s) MUST_CHECK;
/* A pragma or query of one number. */
enum status database_ask(struct sweep_database *db, const char *sql, int64_t *out) MUST_CHECK;
void database_bind_text(sqlite3_stmt *s, int at, const char *text);
/* End a transaction as `st` says. */
enum status database_conclude(struct sweep_database *db, enum status st) MUST_CHECK;
/* "2026-11-21T17:50:03Z" */
enum { DATABASE_TIME = 32 };
void database_now(char text[DATABASE_TIME]);

#endif
