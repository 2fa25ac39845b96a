/**
 * What statements about the catalogue may name. They are run by a real PostgreSQL that holds tables without rows, so this is
 * the wall in front of it: whatever tells of other databases, of roles, of the server or of what others do, and whatever
 * changes anything, is on no list.
 */
import { notSupported } from '../protocol/wire-error.ts'
import { type CatalogueNames, commandOf, namesRelation } from '../sql/commands.ts'
import { isName, type Word } from '../sql/words.ts'

const words = (text: string): readonly string[] => text.trim().split(/\s+/)

const RELATIONS: ReadonlySet<string> = new Set(
  words(`pg_aggregate pg_am pg_amop pg_amproc pg_attrdef pg_attribute pg_auth_members pg_available_extension_versions
    pg_available_extensions pg_cast pg_class pg_collation pg_constraint pg_conversion pg_cursors pg_database pg_db_role_setting
    pg_default_acl pg_depend pg_description pg_enum pg_event_trigger pg_extension pg_foreign_data_wrapper pg_foreign_server
    pg_foreign_table pg_group pg_index pg_indexes pg_inherits pg_init_privs pg_language pg_largeobject_metadata pg_locks pg_matviews
    pg_namespace pg_opclass pg_operator pg_opfamily pg_parameter_acl pg_partitioned_table pg_policies pg_policy
    pg_prepared_statements pg_prepared_xacts pg_proc pg_publication pg_publication_namespace pg_publication_rel
    pg_publication_tables pg_range pg_rewrite pg_roles pg_rules pg_seclabel pg_seclabels pg_sequence pg_sequences pg_settings
    pg_shdepend pg_shdescription pg_shseclabel pg_statistic_ext pg_stats pg_stats_ext pg_subscription pg_subscription_rel
    pg_tables pg_tablespace pg_timezone_abbrevs pg_timezone_names pg_transform pg_trigger pg_ts_config pg_ts_config_map pg_ts_dict
    pg_ts_parser pg_ts_template pg_type pg_user pg_user_mappings pg_views`),
)

/** Views of what a server does: they have no rows here. */
const STATISTICS = /^pg_stat(?:io)?_(?!get_)/

const isRelation = (name: string): boolean => RELATIONS.has(name) || STATISTICS.test(name)

/** Of the catalogue's own names besides relations: types, and its schema. */
const NAMES: ReadonlySet<string> = new Set(words('pg_catalog pg_lsn pg_node_tree pg_snapshot pg_toast'))

const FUNCTIONS: ReadonlySet<string> = new Set(
  words(`
  abs acldefault aclexplode age any array_agg array_append array_cat array_length array_lower array_position array_positions array_prepend
  array_remove array_to_string array_upper array_ndims avg bool_and bool_or btrim cardinality ceil char_length chr coalesce
  col_description concat concat_ws count current_database current_schema current_schemas current_setting date_part date_trunc
  decode dense_rank encode every exists extract first_value floor format format_type generate_series generate_subscripts getdatabaseencoding greatest
  has_any_column_privilege has_column_privilege has_database_privilege has_foreign_data_wrapper_privilege has_function_privilege
  has_language_privilege has_parameter_privilege has_schema_privilege has_sequence_privilege has_server_privilege
  has_table_privilege has_tablespace_privilege has_type_privilege host inet_client_addr inet_client_port inet_server_addr
  inet_server_port initcap json_agg
  json_build_array json_build_object json_object_agg jsonb_agg jsonb_build_object lag last_value lead least left length
  lower ltrim max md5 min mod now nullif obj_description octet_length oidvectortypes parse_ident pg_advisory_unlock_all
  pg_backend_pid pg_blocking_pids pg_char_to_encoding pg_collation_is_visible pg_conversion_is_visible pg_opfamily_is_visible
  pg_ts_config_is_visible pg_ts_dict_is_visible pg_client_encoding pg_column_is_updatable pg_database_size pg_describe_object
  pg_encoding_to_char pg_function_is_visible pg_get_constraintdef pg_get_expr pg_get_function_arg_default pg_get_function_arguments
  pg_get_function_identity_arguments pg_get_function_result pg_get_function_sqlbody pg_get_functiondef pg_get_indexdef pg_get_keywords
  pg_get_partition_constraintdef pg_get_partkeydef pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef
  pg_get_statisticsobjdef_columns pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_has_role pg_identify_object
  pg_identify_object_as_address pg_index_column_has_property pg_index_has_property pg_indexam_has_property pg_indexes_size
  pg_get_wal_replay_pause_state pg_is_in_recovery pg_is_other_temp_schema pg_is_wal_replay_paused pg_my_temp_schema pg_opclass_is_visible pg_options_to_table pg_postmaster_start_time pg_operator_is_visible
  pg_relation_is_publishable pg_relation_is_updatable pg_relation_size pg_show_all_settings pg_stat_get_numscans pg_statistics_obj_is_visible pg_table_is_visible
  pg_size_pretty pg_table_size pg_tablespace_location pg_tablespace_size pg_total_relation_size pg_ts_parser_is_visible
  pg_ts_template_is_visible pg_type_is_visible pg_typeof position quote_ident
  quote_literal quote_nullable rank regexp_count regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table replace
  right round row_number row_to_json rtrim shobj_description sign split_part starts_with string_agg
  string_to_array strpos substr substring sum to_char to_json to_jsonb to_regclass to_regcollation to_regnamespace to_regoper
  to_regoperator to_regproc to_regprocedure to_regrole to_regtype
  translate trim ts_token_type unnest upper version _pg_expandarray _pg_truetypid _pg_truetypmod _pg_char_max_length
  _pg_numeric_precision _pg_numeric_scale _pg_datetime_precision
  bit bpchar char character dec decimal float numeric time timestamp timestamptz varbit varchar interval name text`),
)

/** Names in front of a parenthesis that are no functions. */
const KEYWORDS: ReadonlySet<string> = new Set(
  words(`all and any array as between by case cast cube distinct else end except exists filter from full group grouping
    having ilike in inner intersect into is join lateral left like limit materialized not null offset on operator or order
    ordinality over partition right rollup row select set sets similar some then union using values varying when where
    with within`),
)

/** What needs no parenthesis, and writes. */
const REFUSED: ReadonlySet<string> = new Set(words('into'))

/** Of these what products' dialect does not have, or tells otherwise, besides all that begin like these. */
const OWN_FUNCTIONS: ReadonlySet<string> = new Set(
  words(`col_description current_database current_schema current_schemas current_setting format_type obj_description
    oidvectortypes quote_ident quote_literal set_config shobj_description version`),
)
const OWN_PREFIX = /^(?:_?pg_|has_|to_reg)/

export const CATALOGUE: CatalogueNames = {
  isRelation,
  // What is set is never the catalogue's: see `session-calls.ts`.
  isFunction: (name) => FUNCTIONS.has(name) || KEYWORDS.has(name) || name === 'set_config',
  isOwnFunction: (name) => OWN_FUNCTIONS.has(name) || OWN_PREFIX.test(name),
}

/** What is answered the same whatever tables there are. */
const INDEPENDENT: ReadonlySet<string> = new Set(
  words(`coalesce concat current_database current_schema current_setting now pg_backend_pid pg_client_encoding
    pg_is_in_recovery version`),
)

/** Whether the answer depends on the tables that the caller may read. */
export function needsTables(statement: readonly Word[]): boolean {
  if (namesRelation(statement, CATALOGUE)) return true
  return statement.some(
    ({ kind, value }, at) =>
      (kind === 'name' || kind === 'quoted') &&
      (value.startsWith('reg') || (statement[at + 1]?.text === '(' && !INDEPENDENT.has(value) && !KEYWORDS.has(value))),
  )
}

/** Numbers of rows that are made of nothing. */
const MOST_SERIES = 10_000
const SERIES_MARKS: ReadonlySet<string> = new Set('( ) , . - + [ ] :'.split(' '))

/** `generate_series(1, array_upper(…))`, and nothing that counts far. */
function checkSeries(statement: readonly Word[], at: number): void {
  let depth = 0
  for (const { kind, text } of statement.slice(at + 1)) {
    depth += text === '(' ? 1 : text === ')' ? -1 : 0
    const isSmall =
      kind === 'number'
        ? /^[0-9]+$/.test(text) && Number(text) <= MOST_SERIES
        : kind !== 'mark' || SERIES_MARKS.has(text)
    if (!isSmall || kind === 'parameter' || kind === 'text') throw refused('generate_series() that counts far')
    if (depth === 0) return
  }
}

/** Throws 0A000 for what is on no list. */
export function checkCatalogueWords(statement: readonly Word[]): void {
  for (const [at, word] of statement.entries()) {
    if (word.kind !== 'name' && word.kind !== 'quoted') continue
    const { value } = word
    const isCalled = statement[at + 1]?.text === '('
    if (value.startsWith('pg_') && !isKnown(value, isCalled) && !isNameOfResult(statement, at)) throw refused(value)
    if (word.kind === 'name' && REFUSED.has(value) && !isAlias(statement, at)) throw refused(value)
    if (isCalled && !isAllowedCall(statement, at)) throw refused(`${value}()`)
    if (isCalled && value === 'generate_series') checkSeries(statement, at)
  }
}

/** Names of columns and of results begin like that, too: they are not looked up. */
function isKnown(name: string, isCalled: boolean): boolean {
  return isRelation(name) || (isCalled ? FUNCTIONS.has(name) : NAMES.has(name))
}

/** `AS pg_get_expr_1`: a name that the statement gives, and looks up nowhere. */
const isNameOfResult = (statement: readonly Word[], at: number): boolean =>
  statement[at - 1]?.kind === 'name' && statement[at - 1]?.value === 'as' && statement[at + 1]?.text !== '('

const isAlias = (statement: readonly Word[], at: number): boolean =>
  statement[at - 1]?.value === 'as' || statement[at - 1]?.text === '.'

function isAllowedCall(statement: readonly Word[], at: number): boolean {
  const { kind, value } = statement[at] as Word
  const before = statement[at - 1]?.value
  // `WITH name (a, b) AS`, `AS name (a, b)`: columns, in place of arguments.
  if (before === 'with' || before === 'recursive' || before === 'as') return true
  if (isNamed(statement, at)) return true
  if (kind === 'name' && KEYWORDS.has(value) && statement[at - 1]?.text !== '.') return true
  return FUNCTIONS.has(value)
}

/** `, name (a, b) AS (SELECT …` of a WITH, `pg_class name (a, b)`: its columns, too. */
function isNamed(statement: readonly Word[], at: number): boolean {
  const end = statement.findIndex(({ text }, own) => own > at && text === ')')
  const areColumns = statement
    .slice(at + 2, end)
    .every((word, own) => (own % 2 === 0 ? isName(word) : word.text === ','))
  if (end < 0 || !areColumns) return false
  const before = statement[at - 1]
  if (before?.text === ')') return isOfSet(statement, at - 1)
  if (before !== undefined && isName(before)) return isRelation(before.value) && statement[at - 2]?.value !== 'as'
  return (
    before?.text === ',' && commandOf({ words: statement }) === 'with' && isQuery(statement.slice(end + 1, end + 5))
  )
}

/** `generate_series(1, 32) name (a)`, `(VALUES (1)) name (a)`: behind the call of a function of rows or a query, and no other parenthesis. */
function isOfSet(statement: readonly Word[], close: number): boolean {
  let depth = 0
  for (let at = close; at > 0; at -= 1) {
    const { text } = statement[at] as Word
    depth += text === ')' ? 1 : text === '(' ? -1 : 0
    if (depth > 0) continue
    const [before, first] = [statement[at - 1], statement[at + 1]]
    if (first?.kind === 'name' && QUERIES.has(first.value)) return true
    return before?.kind === 'name' && SETS.has(before.value)
  }
  return false
}

const SETS: ReadonlySet<string> = new Set(['generate_series', 'unnest'])
const QUERIES: ReadonlySet<string> = new Set(['select', 'values', 'with'])

/** `AS [NOT] [MATERIALIZED] (SELECT`: what has columns and types in place of it is the call of a function. */
function isQuery(following: readonly Word[]): boolean {
  const [as, open, first] = following.filter(({ value }) => value !== 'not' && value !== 'materialized')
  const isOpen = as?.kind === 'name' && as.value === 'as' && open?.text === '('
  return isOpen && (first?.text === '(' || (first?.kind === 'name' && ['select', 'with'].includes(first.value)))
}

function refused(name: string) {
  return notSupported(
    `${name} is not answered here`,
    'Statements about the catalogue name what describes tables, columns and types; one that reads rows of products names no relation of the catalogue.',
  )
}
