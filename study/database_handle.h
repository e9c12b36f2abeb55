/* database_handle.h - an open database of points, and statements in one line each. Private.
 *
 * Statements take their parameters by a text of types: "t" a text, "i" an int64_t, "d" a double.
 * A failure to bind shows when the statement is run. */
#ifndef STUDY_DATABASE_HANDLE_H
#define STUDY_DATABASE_HANDLE_H

#include <sqlite3.h>

#include "study/database.h"

enum { DATABASE_APPLICATION = 0x666f7265, DATABASE_VERSION = 2, DATABASE_HOST = 256 };

/* Statements that are run for every point, prepared once. */
enum database_statement {
    DATABASE_GET,
    DATABASE_PUT_RESULT,
    DATABASE_PUT_POINT,
    DATABASE_PUT_PARAMETER,
    DATABASE_PUT_PROVENANCE,
    DATABASE_ADD_MEMBER,
    DATABASE_STATEMENTS
};

struct database {
    sqlite3 *handle;
    char *path, *lock_path;
    int lock; /* -1: none */
    sqlite3_stmt *statement[DATABASE_STATEMENTS];
    const struct provenance *by;
    char host[DATABASE_HOST];
};

/* What SQLite's last error means, with the path. */
enum status database_failed(const struct database *db);
enum status database_execute(struct database *db, const char *sql) MUST_CHECK;
/* Run a prepared statement that gives no rows, and make it ready for the next time. */
enum status database_run(struct database *db, enum database_statement which, const char *types,
                         ...) MUST_CHECK;
/* Prepare and run a statement, call row(context, statement) for each row until it fails; row may be
 * NULL where there are no rows. */
enum status database_query(struct database *db, const char *sql,
                           enum status (*row)(void *context, sqlite3_stmt *s), void *context,
                           const char *types, ...) MUST_CHECK;
/* A pragma or query of one number; -1 when there is no row. */
enum status database_ask(struct database *db, const char *sql, int64_t *out) MUST_CHECK;
/* A column of a row as text, never NULL; until the next step. */
const char *database_text(sqlite3_stmt *s, int column);
/* End a transaction as `st` says. */
enum status database_conclude(struct database *db, enum status st) MUST_CHECK;
/* "2026-11-21T17:50:03Z" */
enum { DATABASE_TIME = 32 };
void database_now(char text[DATABASE_TIME]);

#endif
