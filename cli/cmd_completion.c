/* completion - what shells complete, from the tables that parse the command line.
 *
 * Every place of a command line has a key: "" (the command), "plan" (its first operand), "plan
 * export" (operands behind that word), "plan --" (an option) and "plan --model" (its value). What
 * may stand there is a list of words; @files and @folders stand for names of those, @flag for no
 * value at all, @text for what nobody can guess. bash and zsh look the key up in a function, fish
 * is told place by place. */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/base/text.h"
#include "model/papers.h"
#include "model/zoo.h"
#include "partition/partition.h"
#include "topologies/catalogue.h"
#include "topologies/generate.h"
#include "topologies/systems.h"
#include "topologies/write.h"

enum { WORDS = 4096 };

struct completion_place {
    const char *command, *word; /* word "": the first operand; "--model": an option's value */
    const char *help;           /* of the command, or of the option; NULL: none */
    const char *words;          /* "list $_foreline_models @files" */
};

typedef void put_place(const struct completion_place *p, FILE *out);

static void completion_add_place(char words[WORDS], const char *word)
{
    size_t n = strlen(words);
    snprintf(words + n, WORDS - n, "%s%s", n ? " " : "", word);
}

/* ---- what may stand where */

static const char models[] = "$_foreline_models @files",
                  platforms[] = "$_foreline_platforms @files",
                  families_list[] = "$_foreline_generated";

/* What a word of a synopsis stands for, "MODEL", or of an option's help, "FILE". */
static const char *words_of(const char *stands_for)
{
    static const struct {
        const char *part, *words;
    } all[] = {{"MODEL", models},         {"PLATFORM", platforms},  {"SPEC", families_list},
               {"FILE", "@files"},        {"PLAN", "@files"},       {"SPLIT", "@files"},
               {"MEASUREMENT", "@files"}, {"EXPERIMENT", "@files"}, {"PREFIX", "@files"},
               {"DATABASE", "@files"},    {"DIR", "@folders"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strstr(stands_for, all[i].part))
            return all[i].words;
    return "@text";
}

/* Options whose texts are names of tables that study/settings_table.c does not see. */
static const char *words_of_name(const char *name)
{
    return !strcmp(name, "model")       ? models
           : !strcmp(name, "platform")  ? platforms
           : !strcmp(name, "algorithm") ? "$_foreline_algorithms"
           : !strcmp(name, "gpu")       ? "$_foreline_gpus"
                                        : NULL;
}

static void put_option(const struct command *c, const struct setting *s, put_place *put, FILE *out)
{
    char words[WORDS] = "", option[64], text[SETTING_WORD_SIZE];
    const char *word, *names = words_of_name(s->name);
    bool known = s->word || s->type == SETTING_WORD || s->type == SETTING_NUMBER;
    if (names && (s->type == SETTING_TEXT || s->type == SETTING_LIST))
        completion_add_place(words, names);
    for (size_t i = 0; known && (word = setting_word(s, i, text)); i++)
        completion_add_place(words, word);
    if (s->type == SETTING_FLAG)
        completion_add_place(words, "@flag");
    else if (!*words)
        completion_add_place(words, s->type == SETTING_TEXT || s->type == SETTING_LIST
                                        ? words_of(s->unit)
                                        : "@text");
    snprintf(option, sizeof option, "--%s", s->name);
    put(&(struct completion_place){c->name, option, s->help, words}, out);
    if (!strcmp(s->name, "output"))
        put(&(struct completion_place){c->name, "-o", s->help, words}, out);
}

/* Of `lab` those of its commands. */
static taker_set takers_of(const struct command *c)
{
    return strcmp(c->name, "lab") != 0 ? settings_takers(c->name)
                                       : settings_takers("scoreboard") | settings_takers("kernels");
}

/* Each name once: other ways of calling the command may have a row of the same one. */
static void completion_put_options(const struct command *c, put_place *put, FILE *out)
{
    char all[WORDS] = "--help";
    const taker_set takers = takers_of(c);
    for (const struct setting *s = settings_table; s < settings_table + settings_table_n; s++) {
        char option[64];
        if (!(s->takers & takers) || setting_find(s->name, takers) != s)
            continue;
        put_option(c, s, put, out);
        snprintf(option, sizeof option, "--%s", s->name);
        completion_add_place(all, option);
        if (!strcmp(s->name, "output"))
            completion_add_place(all, "-o");
    }
    put(&(struct completion_place){c->name, "--", NULL, all}, out);
}

/* Operands: alternatives of the synopsis begin with a word ("show MODEL"), or with what is
 * given. */
static void put_operands(const struct command *c, put_place *put, FILE *out)
{
    char first[WORDS] = "", synopsis[512], *way[16], *word[8];
    struct command_row row;
    snprintf(synopsis, sizeof synopsis, "%s", c->synopsis);
    bool kinds =
        c->row && *c->synopsis >= 'A' && *c->synopsis <= 'Z'; /* "KIND FILE...": its rows */
    for (size_t i = 0; kinds && c->row(i, &row); i++) {
        row.term[strcspn(row.term, " ")] = '\0';
        completion_add_place(first, row.term);
        put(&(struct completion_place){c->name, row.term, NULL, "@files"}, out);
    }
    size_t ways = text_split(synopsis, "|", way, 16);
    for (size_t i = 0; i < ways; i++) {
        size_t n = text_split(way[i], " ", word, 8);
        bool is_option = n > 0 && (*word[0] == '-' || text_begins(word[0], "[-"));
        if (n == 0 || is_option)
            continue;
        bool is_word = *word[0] >= 'a' && *word[0] <= 'z';
        const char *known = words_of(word[0]);
        if (is_word || (*known == '@' && !strstr(first, known) && !kinds))
            completion_add_place(first, is_word ? word[0] : known);
        if (is_word)
            put(&(struct completion_place){c->name, word[0], NULL,
                                           n > 1 ? words_of(word[1]) : "@text"},
                out);
    }
    put(&(struct completion_place){c->name, "", c->summary, *first ? first : "@text"}, out);
}

static void completion_put_places(put_place *put, FILE *out)
{
    for (int i = 0; i < commands_n; i++) {
        put_operands(commands[i], put, out);
        completion_put_options(commands[i], put, out);
    }
}

/* ---- lists that several places share: a variable of the shell each */

static void completion_put_list(const char *before, const char *name, const char *words, FILE *out)
{
    /* fish: words apart; the others: one text, which they split */
    fprintf(out, *before ? "%s_foreline_%s %s\n" : "%s_foreline_%s='%s'\n", before, name, words);
}

static enum status put_lists(const char *before, FILE *out)
{
    char list[WORDS] = "help --help --version", **shipped = NULL;
    size_t n = 0;
    for (int i = 0; i < commands_n; i++)
        completion_add_place(list, commands[i]->name);
    completion_put_list(before, "commands", list, out);
    *list = '\0';
    for (size_t i = 0; i < zoo_n; i++)
        completion_add_place(list, zoo[i]->name);
    completion_put_list(before, "models", list, out);
    *list = '\0';
    PASS(topology_list(&shipped, &n));
    for (size_t i = 0; i < n; i++) {
        completion_add_place(list, shipped[i]);
        free(shipped[i]);
    }
    free(shipped);
    char generated[WORDS] = "list";
    for (size_t i = 0; i < families_n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s:", families[i]->name);
        completion_add_place(list, name);
        completion_add_place(generated, name);
    }
    for (size_t i = 0; i < systems_n; i++) {
        completion_add_place(list, systems[i].name);
        completion_add_place(generated, systems[i].name);
    }
    completion_put_list(before, "platforms", list, out);
    completion_put_list(before, "generated", generated, out);
    strcpy(list, "list");
    for (size_t i = 0; i < partition_algorithms_n; i++)
        completion_add_place(list, partition_algorithms[i]->name);
    for (size_t i = 0; i < papers_algorithms_n; i++)
        completion_add_place(list, papers_algorithms[i].name);
    completion_put_list(before, "algorithms", list, out);
    *list = '\0';
    for (size_t i = 0; i < gpus_n; i++)
        completion_add_place(list, gpus[i].name);
    completion_put_list(before, "gpus", list, out);
    return STATUS_OK;
}

/* ---- shells */

static void put_case(const struct completion_place *p, FILE *out)
{
    fprintf(out, "    '%s%s%s') echo \"%s\" ;;\n", p->command, *p->word ? " " : "", p->word,
            p->words);
}

/* In single quotes; `quote` is how the shell writes one inside of them. */
static void completion_put_quoted(const char *text, const char *quote, FILE *out)
{
    fputc('\'', out);
    for (; *text; text++)
        if (*text == '\'')
            fputs(quote, out);
        else
            fputc(*text, out);
    fputc('\'', out);
}

static void completion_put_help(const struct completion_place *p, FILE *out)
{
    if (!p->help)
        return;
    fprintf(out, "    '%s%s%s') REPLY=", p->command, *p->word ? " " : "", p->word);
    completion_put_quoted(p->help, "'\\''", out);
    fputs(" ;;\n", out);
}

/* The keys, for bash and zsh alike. */
static void put_shared(FILE *out)
{
    fputs("\n_foreline_words() { # KEY\n    case $1 in\n    '') echo \"$_foreline_commands\" ;;\n",
          out);
    completion_put_places(put_case, out);
    fputs("    *' --help') echo @flag ;;\n    *) echo @files ;;\n    esac\n}\n"
          "\n"
          "_foreline_key() { # CURRENT WORD...: of what stands behind `foreline WORD...`\n"
          "    local current=$1 main=$2 option= operand= word\n"
          "    shift\n"
          "    if [ $# -eq 0 ]; then return; fi\n"
          "    shift\n"
          "    for word in \"$@\"; do\n"
          "        if [ -n \"$option\" ]; then\n"
          "            option=\n"
          "            continue\n"
          "        fi\n"
          "        case $word in\n"
          "        --*=*) ;;\n"
          "        -*) [ \"$(_foreline_words \"$main $word\")\" = @flag ] || option=$word ;;\n"
          "        *) operand=${operand:-$word} ;;\n"
          "        esac\n"
          "    done\n"
          "    case $option,$current in\n"
          "    -*) echo \"$main $option\" ;;\n"
          "    ,--*=*) echo \"$main ${current%%=*}\" ;;\n"
          "    ,-*) echo \"$main --\" ;;\n"
          "    *) echo \"$main${operand:+ $operand}\" ;;\n"
          "    esac\n"
          "}\n",
          out);
}

static enum status put_bash(FILE *out)
{
    fputs("# bash completion of foreline, made by `foreline completion bash`\n\n", out);
    PASS(put_lists("", out));
    put_shared(out);
    /* bash has split words at '=' and ':', and replaces only what is behind the last of them */
    fputs("\n_foreline() {\n"
          "    local line=${COMP_LINE:0:COMP_POINT} current= key= value= word= name=\n"
          "    local -a before\n"
          "    read -ra before <<<\"$line\"\n"
          "    if [[ $line != *[[:space:]] ]]; then\n"
          "        current=${before[-1]}\n"
          "        unset 'before[-1]'\n"
          "    fi\n"
          "    key=$(_foreline_key \"$current\" \"${before[@]:1}\")\n"
          "    value=$current\n"
          "    [[ $current == --*=* ]] && value=${current#*=}\n"
          "    COMPREPLY=()\n"
          "    for word in $(_foreline_words \"$key\"); do\n"
          "        case $word in\n"
          "        @files | @folders)\n"
          "            compopt -o filenames 2>/dev/null\n"
          "            [[ $word == @files ]] && word=-f || word=-d\n"
          "            while IFS= read -r name; do COMPREPLY+=(\"$name\"); done < <(compgen $word "
          "-- \"$value\")\n"
          "            ;;\n"
          "        @*) ;;\n"
          "        \"$value\"*) COMPREPLY+=(\"$word\") ;;\n"
          "        esac\n"
          "    done\n"
          "    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]]; then compopt -o nospace "
          "2>/dev/null; fi\n"
          "    if [[ $value == *[:=]* ]]; then\n"
          "        value=${value%\"${value##*[:=]}\"}\n"
          "        COMPREPLY=(\"${COMPREPLY[@]#\"$value\"}\")\n"
          "    fi\n"
          "}\n"
          "complete -F _foreline foreline\n",
          out);
    return STATUS_OK;
}

static enum status put_zsh(FILE *out)
{
    fputs("#compdef foreline\n# zsh completion of foreline, made by `foreline completion zsh`\n\n",
          out);
    PASS(put_lists("", out));
    put_shared(out);
    fputs("\n_foreline_help() { # KEY: what it is, in REPLY\n    case $1 in\n", out);
    completion_put_places(completion_put_help, out);
    fputs("    *) REPLY= ;;\n    esac\n}\n"
          "\n_foreline() {\n"
          "    local key word REPLY\n"
          "    local -a found open text\n"
          "    if ((CURRENT > 2)); then\n"
          "        key=$(_foreline_key \"$words[CURRENT]\" \"${(@)words[2,CURRENT-1]}\")\n"
          "    fi\n"
          "    [[ $words[CURRENT] == --*=* && $key != *\" --\" ]] && compset -P 1 '--*='\n"
          "    for word in ${=$(_foreline_words \"$key\")}; do\n"
          "        case $word in\n"
          "        @files) _files ;;\n"
          "        @folders) _files -/ ;;\n"
          "        @*) ;;\n"
          "        *:) open+=($word) ;;\n"
          "        *)\n"
          "            _foreline_help \"${key%--}$word\"\n"
          "            found+=($word) text+=(\"$word${REPLY:+  -- $REPLY}\")\n"
          "            ;;\n"
          "        esac\n"
          "    done\n"
          "    (($#open)) && compadd -S '' -a open\n"
          "    if [[ -z $key || $key == *\" --\" ]]; then\n"
          "        compadd -l -d text -a found\n"
          "    elif (($#found)); then\n"
          "        compadd -a found\n"
          "    fi\n"
          "}\n"
          "if [ \"$funcstack[1]\" = _foreline ]; then _foreline \"$@\"; else compdef _foreline "
          "foreline; fi\n",
          out);
    return STATUS_OK;
}

/* @files and @folders are options of `complete`, the rest is a list. */
static void put_fish_words(const char *words, FILE *out)
{
    char list[WORDS];
    const char *files = strstr(words, "@files");
    snprintf(list, sizeof list, "%.*s", (int)strcspn(words, "@"), words);
    if (files)
        fputs(" -F", out);
    else if (strstr(words, "@folders"))
        fputs(" -f -a '(__fish_complete_directories)'", out);
    else
        fputs(" -f", out);
    if (*list)
        fprintf(out, " -a \"%s\"", list);
    fputc('\n', out);
}

static void put_fish_place(const struct completion_place *p, FILE *out)
{
    if (!strcmp(p->word, "--"))
        return;
    if (!*p->word) {
        fprintf(out, "complete -c foreline -n __foreline_first -f -a %s -d ", p->command);
        completion_put_quoted(p->help, "\\'", out);
        fprintf(out, "\ncomplete -c foreline -n '__foreline_%s %s'", *p->words == '@' ? "of" : "at",
                p->command); /* files: as many as there are */
    } else if (*p->word != '-') {
        fprintf(out, "complete -c foreline -n '__foreline_at %s %s'", p->command, p->word);
    } else {
        const bool is_long = p->word[1] == '-';
        fprintf(out, "complete -c foreline -n '__foreline_of %s' -%c %s -d ", p->command,
                is_long ? 'l' : 's', p->word + (is_long ? 2 : 1));
        completion_put_quoted(p->help, "\\'", out);
        fputs(strcmp(p->words, "@flag") != 0 ? " -r" : "", out);
    }
    put_fish_words(p->words, out);
}

static enum status put_fish(FILE *out)
{
    fputs("# fish completion of foreline, made by `foreline completion fish`\n\n", out);
    PASS(put_lists("set -g ", out));
    fputs("\nfunction __foreline_first\n"
          "    test (count (commandline -opc)) -eq 1\n"
          "end\n"
          "function __foreline_of # COMMAND\n"
          "    set -l words (commandline -opc)\n"
          "    test \"$words[2]\" = $argv[1]\n"
          "end\n"
          "function __foreline_at # COMMAND [WORD]: behind them, no operand besides\n"
          "    __foreline_of $argv[1]; or return 1\n"
          "    set -l words (commandline -opc)\n"
          "    if set -q argv[2]\n"
          "        test \"$words[3]\" = $argv[2]\n"
          "    else\n"
          "        not string match -qr '^[^-]' -- \"$words[3]\"\n"
          "    end\n"
          "end\n"
          "complete -c foreline -f\n"
          "complete -c foreline -n __foreline_first -f -a 'help --help --version'\n"
          "complete -c foreline -l help -f -d 'explain the command'\n",
          out);
    completion_put_places(put_fish_place, out);
    return STATUS_OK;
}

static const struct {
    const char *name;
    enum status (*put)(FILE *out);
} shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};

static enum status completion(struct invocation *in)
{
    PASS(command_expect(in, 1, "bash, zsh or fish"));
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, in->operand[0]))
            return shells[i].put(stdout);
    return error_set(STATUS_USAGE, "unknown shell '%.60s'; known: bash, zsh, fish", in->operand[0]);
}

const struct command command_completion = {
    .name = "completion",
    .synopsis = "bash|zsh|fish",
    .summary = "print a script that completes commands, options, values and names in a shell",
    .details =
        "Prints a script for the shell, made from the tables that parse the command line: the\n"
        "commands, their words and options with help, values of options that have a list of them,\n"
        "models of the zoo, shipped and generated platforms, and names of files. Packages and\n"
        "cmake --install put it where the shells look. By hand, for this session:\n"
        "\n"
        "  bash    eval \"$(foreline completion bash)\"\n"
        "  zsh     eval \"$(foreline completion zsh)\"    (behind compinit)\n"
        "  fish    foreline completion fish | source",
    .examples = "foreline completion bash > foreline.bash\n",
    .run = completion,
};
