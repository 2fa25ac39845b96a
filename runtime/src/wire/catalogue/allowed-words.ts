/**
 * What statements about the catalogue may name. They are run by a real PostgreSQL that holds tables without rows, so this is
 * the wall in front of it: whatever tells of other databases, of roles, of the server or of what others do, and whatever
 * changes anything, is on no list.
 */
import { notSupported } from '../protocol/wire-error.ts'
import type { Word } from '../sql/words.ts'

const words = (text: string): readonly string[] => text.trim().split(/\s+/)

const RELATIONS: ReadonlySet<string> = new Set(
  words(`pg_aggregate pg_am pg_amop pg_amproc pg_attrdef pg_attribute pg_cast pg_class pg_collation pg_constraint
    pg_conversion pg_depend pg_description pg_enum pg_event_trigger pg_extension pg_foreign_data_wrapper
    pg_foreign_server pg_foreign_table pg_index pg_indexes pg_inherits pg_init_privs pg_language pg_matviews
    pg_namespace pg_opclass pg_operator pg_opfamily pg_partitioned_table pg_policy pg_proc pg_publication
    pg_publication_namespace pg_publication_rel pg_publication_tables pg_range pg_rewrite pg_roles pg_rules pg_seclabel
    pg_sequence pg_sequences pg_statistic_ext pg_tables pg_tablespace pg_timezone_abbrevs pg_timezone_names pg_transform pg_trigger
    pg_ts_config pg_ts_dict pg_ts_parser pg_ts_template pg_type pg_views`),
)

/** Of the catalogue's own names besides relations: types, and its schema. */
const NAMES: ReadonlySet<string> = new Set(words('pg_catalog pg_lsn pg_node_tree pg_snapshot pg_toast'))

const FUNCTIONS: ReadonlySet<string> = new Set(
  words(`
  abs any array_agg array_append array_cat array_length array_lower array_position array_positions array_prepend
  array_remove array_to_string array_upper array_ndims avg bool_and bool_or cardinality ceil char_length chr coalesce
  col_description concat concat_ws count current_database current_schema current_schemas current_setting date_part date_trunc
  dense_rank every exists extract first_value floor format format_type generate_series generate_subscripts greatest
  has_any_column_privilege has_column_privilege has_schema_privilege has_table_privilege initcap json_agg
  json_build_array json_build_object json_object_agg jsonb_agg jsonb_build_object lag last_value lead least left length
  lower lpad ltrim max md5 min mod now nullif obj_description octet_length oidvectortypes pg_advisory_unlock_all
  pg_backend_pid pg_char_to_encoding pg_collation_is_visible pg_conversion_is_visible pg_opfamily_is_visible
  pg_ts_config_is_visible pg_ts_dict_is_visible pg_client_encoding pg_column_is_updatable pg_encoding_to_char
  pg_function_is_visible pg_get_constraintdef pg_get_expr pg_get_function_arguments
  pg_get_function_identity_arguments pg_get_function_result pg_get_functiondef pg_get_indexdef pg_get_keywords
  pg_get_partition_constraintdef pg_get_partkeydef pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef
  pg_get_statisticsobjdef_columns pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_index_column_has_property
  pg_is_in_recovery pg_is_other_temp_schema pg_my_temp_schema pg_opclass_is_visible pg_operator_is_visible
  pg_relation_is_publishable pg_relation_is_updatable pg_statistics_obj_is_visible pg_table_is_visible
  pg_size_pretty pg_type_is_visible pg_typeof position quote_ident
  quote_literal rank regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table replace
  right round row_number row_to_json rpad rtrim shobj_description sign split_part starts_with string_agg
  string_to_array strpos substr substring sum to_char to_json to_jsonb to_regclass to_regnamespace to_regproc to_regtype
  translate trim unnest upper version _pg_expandarray _pg_truetypid _pg_truetypmod _pg_char_max_length
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

/** What needs no parenthesis, and tells what nobody is told here, or writes. */
const REFUSED: ReadonlySet<string> = new Set(words('current_catalog current_role into'))

export const isCatalogueFunction = (name: string): boolean => FUNCTIONS.has(name) || KEYWORDS.has(name)

/** Throws 0A000 for what is on no list. */
export function checkCatalogueWords(statement: readonly Word[]): void {
  for (const [at, word] of statement.entries()) {
    if (word.kind !== 'name' && word.kind !== 'quoted') continue
    const { value } = word
    const isCalled = statement[at + 1]?.text === '('
    if (value.startsWith('pg_') && !isKnown(value, isCalled) && !isNameOfResult(statement, at)) throw refused(value)
    if (word.kind === 'name' && REFUSED.has(value) && !isAlias(statement, at)) throw refused(value)
    if (isCalled && !isAllowedCall(statement, at)) throw refused(`${value}()`)
  }
}

/** Names of columns and of results begin like that, too: they are not looked up. */
function isKnown(name: string, isCalled: boolean): boolean {
  return isCalled ? FUNCTIONS.has(name) || RELATIONS.has(name) : RELATIONS.has(name) || NAMES.has(name)
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
  if (kind === 'name' && KEYWORDS.has(value) && statement[at - 1]?.text !== '.') return true
  return FUNCTIONS.has(value)
}

function refused(name: string) {
  return notSupported(
    `${name} is not answered here`,
    'Statements about the catalogue name what describes tables, columns and types; one that reads rows of products names no relation of the catalogue.',
  )
}
