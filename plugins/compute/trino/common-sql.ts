/**
 * Text that DuckDB and Trino read alike. What the columns of a transform in Trino are made of is said by DuckDB's tree of
 * it, which is true only where every name means the same to both: one engine's keyword is an alias to the other, they
 * fold letters beyond ASCII differently, and they merge the columns of joins in different orders. So the text is judged
 * by its parts, and what is not known to be read alike is not.
 */
import { guardedTokens, type Token } from './guard.ts'

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

/** Keywords of either that mean the same wherever both accept the text, or that no query gives a meaning to. */
const COMMON = words(`
  select from where group by having order join inner left right full cross outer on as and or not in is null true
  false case when then else end cast distinct union except intersect like escape between with exists asc desc nulls
  first last limit offset over partition filter rows range unbounded preceding following current row all interval
  date time timestamp zone at array double precision decimal numeric integer int bigint smallint real varchar char
  boolean extract trim substring position coalesce nullif try_cast count if replace current_date current_timestamp
  year years month day hour minute second name type value key data version owner source label level location domain
  comment text
`)

/** All other keywords of either. */
export const UNCOMMON: ReadonlySet<string> = words(`
  abort absent absolute access action add admin after aggregate also alter always analyse analyze anti any asof
  assertion assignment asymmetric attach attribute authorization auto backward before begin bernoulli binary bit both
  branch cache call called cascade cascaded catalog catalogs centuries century chain character characteristics check
  checkpoint class close cluster collate collation column columns comments commit committed compression concurrently
  conditional configuration conflict connection constraint constraints content continue conversion copartition copy
  corresponding cost create csv cube current_catalog current_path current_role current_schema current_time
  current_user cursor cycle database days deallocate dec decade decades declare default defaults deferrable deferred
  define definer delete delimiter delimiters deny depends describe descriptor detach deterministic dictionary disable
  discard distributed do document drop each elseif empty enable encoding encrypted enum error event exclude excluding
  exclusive execute explain export export_state extension extensions external family fetch final float for force
  foreign format forward freeze function functions generated glob global grace grant granted grants graphviz grouping
  grouping_id groups handler header hold hours identity ignore ilike immediate immutable implicit import include
  including increment index indexes inherit inherits initial initially inline inout input insensitive insert install
  instead into invoker io isnull isolation iterate json json_array json_exists json_object json_query json_table
  json_value keep keys lambda language large lateral leading leakproof leave listagg listen load local localtime
  localtimestamp lock locked logged logical loop macro map mapping match match_recognize matched matches materialized
  maxvalue measures merge method microsecond microseconds millennia millennium millisecond milliseconds minutes
  minvalue mode months move names national natural nchar nested new next nfc nfd nfkc nfkd no none normalize nothing
  notify notnull nowait object of off oids old omit one only operator option options ordinality others out output
  overflow overlaps overlay overriding owned parallel parser partial partitioned partitions passing password past
  path pattern per percent period permute persistent pivot pivot_longer pivot_wider placing plan plans policy
  positional pragma prepare prepared preserve primary prior privileges procedural procedure program properties prune
  publication qualify quarter quarters quote quotes read reassign recheck recursive ref references referencing
  refresh reindex relative release rename repeat repeatable replica reset respect restart restrict return returning
  returns revoke role roles rollback rollup rule running sample savepoint scalar schema schemas scope scroll search
  seconds secret security seek semi sequence sequences serializable server session set setof sets share show similar
  simple skip snapshot some sorted sql stable standalone start statement statistics stats stdin stdout storage stored
  strict string strip struct subscription subset summarize symmetric sysid system table tables tablesample tablespace
  target temp template temporary ties to trailing transaction transform treat trigger truncate trusted types uescape
  uncommitted unconditional unencrypted unique unknown unlisten unlogged unmatched unnest unpack unpivot until update
  use user using utf16 utf32 utf8 vacuum valid validate validator values variable variadic varying verbose view views
  virtual volatile week weeks while whitespace window within without work wrapper write xml xmlattributes xmlconcat
  xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable yes
`)

export const isKeyword = (word: string): boolean => COMMON.has(word) || UNCOMMON.has(word)

const MARKS: ReadonlySet<string> = new Set('( ) [ ] , . + - * / % = < > <= >= <> != ||'.split(' '))

/** ASCII without what folds: other letters of the same look are no others to one of the two. */
const isAscii = (name: string): boolean => /^[ -~]*$/.test(name)

/**
 * Whether both read the same in a query that passed `guardedQuery`, and that Trino accepts, over tables of these names.
 * `names` are all that stand around it: of its tables, of their columns, of its own columns.
 */
export function isCommonSql(query: string, tables: readonly string[], names: readonly string[]): boolean {
  if (![...tables, ...names].every(isAscii)) return false
  const tokens = guardedTokens(query)
  return tokens.every((_token, at) => isCommon(tokens, at)) && hasDistinctNames(tokens, tables)
}

function isCommon(tokens: readonly Token[], at: number): boolean {
  const { kind, text } = tokens[at] as Token
  switch (kind) {
    case 'number':
      return true
    case 'text':
      return text.startsWith("'") && !isPrefixed(tokens, at)
    case 'mark':
      return (
        MARKS.has(text) &&
        (text !== '*' || isCommonStar(tokens, at)) &&
        !(text === '.' && isText(tokens, at - 1, ')', ']'))
      )
    case 'name':
      return text.startsWith('"') ? isAscii(text) : isCommonWord(tokens, at)
    default:
      return false
  }
}

/** Of DuckDB's own texts, as `e'\''`, the end is elsewhere. */
function isPrefixed(tokens: readonly Token[], at: number): boolean {
  const before = tokens[at - 1]
  return before?.kind === 'name' && (!COMMON.has(before.text.toLowerCase()) || isText(tokens, at - 2, '.'))
}

/** A product, `count(*)`, or all columns of all there is: `t.*` may be the fields of a column, and lists differ. */
function isCommonStar(tokens: readonly Token[], at: number): boolean {
  if (isText(tokens, at - 1, '(')) return isText(tokens, at - 2, 'count') && isText(tokens, at + 1, ')')
  if (isText(tokens, at - 1, 'select', 'distinct')) return isText(tokens, at + 1, 'from')
  return !isText(tokens, at - 1, ',', '.', '[') && at > 0
}

function isCommonWord(tokens: readonly Token[], at: number): boolean {
  // Behind a dot, every word is a name.
  if (isText(tokens, at - 1, '.')) return !isText(tokens, at + 1, '(')
  const next = tokens[at + 1]
  switch (tokens[at]?.text.toLowerCase()) {
    case 'with':
      return at === 0 || (isText(tokens, at + 1, 'time') && isText(tokens, at + 2, 'zone'))
    case 'all':
      return isText(tokens, at - 1, 'union', 'except', 'intersect')
    case 'by':
      return isText(tokens, at - 1, 'group', 'order', 'partition')
    case 'over':
      return isText(tokens, at - 1, ')') && isText(tokens, at + 1, '(')
    case 'partition':
      return isText(tokens, at - 1, '(') && isText(tokens, at + 1, 'by')
    case 'row':
      return isText(tokens, at - 1, 'current')
    case 'limit':
    case 'offset':
      return next?.kind === 'number'
    case 'interval':
      return next?.kind === 'text'
    default:
      return !UNCOMMON.has((tokens[at] as Token).text.toLowerCase())
  }
}

function isText(tokens: readonly Token[], at: number, ...texts: readonly string[]): boolean {
  return texts.includes(tokens[at]?.text.toLowerCase() ?? '')
}

/** Whether no query of WITH is called as another one, or as a table. */
function hasDistinctNames(tokens: readonly Token[], tables: readonly string[]): boolean {
  if (!isText(tokens, 0, 'with')) return true
  const known = new Set(tables.map((name) => name.toLowerCase()))
  let depth = 0
  for (const [at, { kind, text }] of tokens.entries()) {
    if (text === '(') depth += 1
    if (text === ')') depth -= 1
    if (depth > 0) continue
    if (isText(tokens, at, 'select')) break
    if (kind !== 'name' || !isText(tokens, at - 1, 'with', ',')) continue
    const name = (text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text).toLowerCase()
    if (known.has(name)) return false
    known.add(name)
  }
  return true
}
