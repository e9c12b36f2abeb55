/* Databases of strangers: nothing in them is run, and nothing takes for ever. */
#include "core/base/clock.h"
#include "study/database_handle.h"

static int is_late(void *database)
{
    return clock_now() > ((const struct database *)database)->until_s;
}

enum status database_protect(struct database *db)
{
    static const int settings[][2] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                      {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                      {SQLITE_DBCONFIG_ENABLE_VIEW, 0}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (sqlite3_db_config(db->handle, settings[i][0], settings[i][1], NULL) != SQLITE_OK)
            return database_failed(db);
    sqlite3_progress_handler(db->handle, 10000, is_late, db);
    return STATUS_OK;
}

static enum status database_guard_refuse(void *context, sqlite3_stmt *s)
{
    const struct database *db = context;
    return error_set(STATUS_IO,
                     "%s: database was not written by foreline sweep: contains %.20s '%.40s'",
                     db->path, database_text(s, 0), database_text(s, 1));
}

enum status database_check_schema(struct database *db)
{
    return database_run(
        db,
        "SELECT CASE WHEN sql LIKE 'CREATE VIRTUAL%' THEN 'virtual table' ELSE type END,"
        " name FROM sqlite_schema WHERE type = 'trigger' OR"
        " (name IN ('experiment', 'member', 'point', 'parameter', 'provenance', 'result')"
        " AND (type <> 'table' OR sql NOT LIKE 'CREATE TABLE %')) LIMIT 1",
        database_guard_refuse, db, "");
}
