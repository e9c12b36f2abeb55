/* database_handle.h - an open database of points, and statements in one line each. Private.
 *
 * Statements take their parameters by a text of types: "t" a text, "i" an int64_t, "d" a double,
 * "r" all columns of a result. */
#ifndef STUDY_DATABASE_HANDLE_H
#define STUDY_DATABASE_HANDLE_H

#include <sqlite3.h>

#include "study/database.h"

enum { DATABASE_APPLICATION = 0x666f7265, DATABASE_VERSION = 9, DATABASE_HOST = 256 };
enum { DATABASE_SQL = 4096, DATABASE_STATEMENTS = 24 };

struct database {
    sqlite3 *handle;
    char *path, *lock_path;
    int lock;       /* -1: none */
    double until_s; /* when the step that runs is ended */
    size_t statements;
    struct database_statement {
        const char *sql; /* that database_run() was given */
        sqlite3_stmt *statement;
    } statement[DATABASE_STATEMENTS];
    char get[DATABASE_SQL], put[DATABASE_SQL]; /* of result.h's columns */
    const struct provenance *by;
    char host[DATABASE_HOST];
};

/* To be called when the file is open: no trigger, view or function in its schema is run, and a step
 * that takes longer than a minute is ended. */
enum status database_protect(struct database *db) MUST_CHECK;
/* STATUS_IO when a table of ours is anything but a plain table, or there are triggers. What else
 * the user has added is not looked at. */
enum status database_check_schema(struct database *db) MUST_CHECK;
/* What SQLite's last error means, with the path. */
enum status database_failed(const struct database *db);
enum status database_execute(struct database *db, const char *sql) MUST_CHECK;
/* Run a statement, and call row(context, statement) for each row until it fails; row may be NULL
 * where there are no rows. Statements are prepared once for each `sql`, which must stay where it
 * is; there are at most DATABASE_STATEMENTS of them. */
enum status database_run(struct database *db, const char *sql,
                         enum status (*row)(void *context, sqlite3_stmt *s), void *context,
                         const char *types, ...) MUST_CHECK;
/* A `row` that takes the number in the first column to the int64_t at `context`. */
enum status database_number(void *context, sqlite3_stmt *s) MUST_CHECK;
/* A pragma or query of one number; -1 when there is no row. */
enum status database_ask(struct database *db, const char *sql, int64_t *out) MUST_CHECK;
/* A column of a row as text, never NULL; until the next step. */
const char *database_text(sqlite3_stmt *s, int column);
/* End a transaction as `st` says. */
enum status database_conclude(struct database *db, enum status st) MUST_CHECK;

#endif
