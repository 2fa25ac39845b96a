import { join } from 'node:path'
import {
  copyToFile,
  type EngineStep,
  FILE_COLUMN,
  fileNames,
  fileType,
  fromFile,
  quoteName,
  quoteText,
  type StepResult,
} from '@sluice/engine'
import type { TableSchema } from '@sluice/sdk'
import { fileFields, hasMarks } from './format/marks.ts'
import { fromIceberg, type LakeSchema, toTableSchema } from './format/table-schema.ts'
import { deletesByFile, deletesOf, type MarkedFile, newMarkedFile, positionsStep } from './position-deletes.ts'
import { engineTable, type Scan, type ScanFile } from './scan.ts'
import type { ObjectStore } from './store/object-store.ts'
import type { TableState } from './table-state.ts'
import { type JobRunner, planTable, type WriteJob, type WriteTarget } from './write.ts'

/**
 * A change of some rows. Of a large file that few of them are in, their positions are listed as deleted; other files that hold
 * any are written anew.
 */
export interface MergeRequest {
  readonly base: TableState
  /** Of the base, as it is now. */
  readonly scan: Scan
  /** The table's columns afterwards. */
  readonly schema: TableSchema
  readonly renames?: Readonly<Record<string, string>>
  /** `rewrite` where a column becomes what the files cannot be read as any more: then all of them are written anew. */
  readonly rows: WriteTarget['rows']
  /** At most one row of `changed`, and one of the table, has a key; none is null. */
  readonly key: readonly string[]
  /** What `changed` reads. */
  readonly job: WriteJob
  /** A statement: the rows that take the place of those with their key, or are new. */
  readonly changed: string
  /** A column: rows of `changed` of which the table has a greater value stay out. Absent: each takes its place. */
  readonly newest?: string
  /** A statement: the keys, none of `changed`, whose rows go. */
  readonly gone?: string
  /** Asked for once `changed` has been read. Absent: rows whose keys are not among `changed` stay. */
  readonly present?: () => Promise<PresentKeys>
  readonly sortBy?: readonly string[]
  readonly targetFileBytes?: number
  /** Files of fewer rows are written anew for any of them. Default 10,000. */
  readonly smallFileRows?: number
  /** Files of which as many or more of their rows are gone are written anew. Default 0.1. */
  readonly maxDeletedShare?: number
  /** The rows of `changed` have the column `MARKS`, too, and those that stay keep theirs. */
  readonly marks?: boolean
}

/** The keys that the table is to have, besides those of `changed`: rows with any other go. */
export interface PresentKeys {
  /** What `keys` reads. */
  readonly job: WriteJob
  /** A statement: the columns of the key, and `version`. */
  readonly keys: string
  /** A column that says of a row which state of it this is; null: none does. */
  readonly version: string | null
  /** A key may be present in several states, of which the one with the greatest version counts. */
  readonly repeats?: boolean
}

export interface DeleteRequest {
  readonly base: TableState
  readonly scan: Scan
  /** One boolean SQL expression over the table's columns: rows for which it is true go. Its trust is the runtime's. */
  readonly where: string
  /** Files are written anew for rows of the kind that are listed as gone, too: they lie in them until then. */
  readonly buried?: boolean
  readonly job: WriteJob
}

/** What `Lake.write` is to be given, and what the commit removes. */
export interface TouchedFiles {
  readonly job: WriteJob
  readonly target: WriteTarget
  /** The files whose rows are written anew, or are gone. */
  readonly files: readonly ScanFile[]
  /** The files of position deletes that go with them, or are replaced by those of `marked`. */
  readonly deletes: readonly ScanFile[]
  /** What the last collecting steps of the job write. */
  readonly marked: readonly MarkedFile[]
  /** Of the request's own job. */
  readonly results: readonly StepResult[]
  /** How many rows go because their key is not among those that are present. */
  readonly gone: number
  /** Keys that are present and that neither the table nor `changed` has, or the table in another version alone. */
  readonly unexplained: number
  /**
   * Where keys repeat: those of which `changed` has an older state than the table and than one that is present, and those of
   * which the table has a newer one than all that are present. Another state is to take their place, which did not come.
   */
  readonly outdated: number
}

const CHANGED = 'lake_changed'
const PRESENT = 'lake_present'
const GONE = 'lake_gone'
const BEFORE = 'lake_before'
const TOUCHED = 'lake_touched'

const SMALL_FILE_ROWS = 10_000
/** Of a table without partitions. More are written into one by the next merge. */
const MAX_SMALL_FILES = 16
/** Where more rows of a file are gone, it is written anew: all its readers pass over each of them. */
const MAX_DELETED_SHARE = 0.1
/** Each is a step of one job. */
const MAX_MARKED_FILES = 500

interface MergeContext {
  readonly store: ObjectStore
  readonly engine: JobRunner
  /** An empty folder that is there until the write has ended. */
  readonly dir: string
}

/** Keeps the changed rows aside and finds where rows with one of their keys are, reading the key columns alone. */
export async function planMerge(
  context: MergeContext,
  request: MergeRequest,
  signal: AbortSignal,
): Promise<TouchedFiles> {
  const { base, scan, job, key, renames, rows, present } = request
  const target = { base, schema: request.schema, rows, ...(renames === undefined ? {} : { renames }) } as const
  const planned = planTable(target).schema.schema
  const schema = { ...planned, fields: fileFields(planned.fields, request.marks) }
  const file = join(context.dir, 'changed.parquet')
  const looksForKeys = rows === 'keep' && scan.files.length > 0 && findsPositions(base, scan, request.schema)
  const gone =
    request.gone === undefined ? null : { file: join(context.dir, 'gone.parquet'), schema: ofKey(schema, key) }
  const others = { present: present ? presentFile(context) : null, gone: gone?.file ?? null }
  const hits = join(context.dir, 'hits.parquet')
  const find = looksForKeys ? hitSteps(scan, schema, key, { ...others, changed: file, hits }) : []
  const changed = newestOf(request)
  const aside = [
    ...(job.steps ?? []),
    keepAside(changed.rows, file, schema),
    ...(gone === null ? [] : [keepAside(request.gone as string, gone.file, gone.schema)]),
    ...(present ? [] : find),
  ]
  const asides = gone === null ? [file] : [file, gone.file]
  const readPaths = [...(job.readPaths ?? []), ...asides, hits, ...[...scan.files, ...scan.deletes].map(localOf)]
  const tables = [...(job.tables ?? []), ...changed.known.map((known) => knownTable(base, scan, schema, known))]
  const own = { ...job, trust: 'own', tables, steps: aside, readPaths, writeDirs: [context.dir] } as const
  const run = await context.engine.run(own, signal)
  const swept = present ? await sweep(context, request, await present(), { schema, file, find, hits }, signal) : null
  const found = looksForKeys ? (swept?.found ?? run.results.at(-1)) : undefined
  const { files, marked } = found === undefined ? { files: scan.files, marked: [] } : part(context, request, found)
  const former = (one: ScanFile) => deletesOf(scan, [one]).map(localOf)
  const columns = schema.fields.map((field) => quoteName(field.name)).join(', ')
  const without = gone === null ? '' : ` ANTI JOIN ${GONE} g ON ${sameKey('g', key)}`
  const kept = `SELECT ${list('t', schema)} FROM ${TOUCHED} t ANTI JOIN ${CHANGED} c ON ${sameKey('c', key)}${without}`
  const stays = swept ? ` SEMI JOIN ${PRESENT} p ON ${sameKey('p', key)}` : ''
  return {
    job: {
      tables: [
        engineTable({ ...scan, files, deletes: deletesOf(scan, files) }, [TOUCHED], asWritten(base, schema)),
        asideTable(CHANGED, file, schema),
        ...(swept ? [asideTable(PRESENT, presentFile(context), swept.schema)] : []),
        ...(gone === null ? [] : [asideTable(GONE, gone.file, gone.schema)]),
      ],
      ...(marked.length === 0
        ? {}
        : {
            steps: marked.map((one) => positionsStep(one, [hits, ...former(one.file)])),
            readPaths: [hits, ...marked.flatMap((one) => former(one.file))],
            writeDirs: [context.dir],
          }),
      limits: job.limits,
    },
    target: {
      ref: base.ref,
      base,
      select: `SELECT ${columns} FROM ${CHANGED} UNION ALL ${kept}${stays}`,
      schema: request.schema,
      rows,
      ...(renames === undefined ? {} : { renames }),
      ...(request.sortBy === undefined ? {} : { sortBy: request.sortBy }),
      ...(request.targetFileBytes === undefined ? {} : { targetFileBytes: request.targetFileBytes }),
      ...(request.marks === true ? { marks: true } : {}),
    },
    files,
    deletes: found === undefined ? scan.deletes : deletesOf(scan, [...files, ...marked.map((one) => one.file)]),
    marked,
    results: looksForKeys && !present ? run.results.slice(0, -1) : run.results,
    gone: swept?.gone ?? 0,
    unexplained: swept?.unexplained ?? 0,
    outdated: swept?.outdated ?? 0,
  }
}

/** What is to take its place, and the columns of the table that are to be known for that. */
function newestOf({ changed, key, newest }: MergeRequest): {
  readonly rows: string
  readonly known: readonly string[][]
} {
  if (newest === undefined) return { rows: changed, known: [] }
  const column = quoteName(newest)
  const isOlder = `b.${column} > t.${column} OR (b.${column} IS NOT NULL AND t.${column} IS NULL)`
  const rows = `SELECT t.* FROM (${changed}) t ANTI JOIN ${BEFORE} b ON ${sameKey('b', key)} AND (${isOlder})`
  return { rows, known: [[...key, newest]] }
}

function knownTable(base: TableState, scan: Scan, schema: LakeSchema, names: readonly string[]) {
  const known = { ...schema, fields: schema.fields.filter(({ name }) => names.includes(name)) }
  return engineTable(scan, [BEFORE], asWritten(base, known))
}

/**
 * Whether rows can be told by their file and their place in it. The engine gives no places where a file, of before or to come,
 * has a column of the name that it has for them.
 */
function findsPositions({ metadata }: TableState, scan: Scan, next: TableSchema): boolean {
  const taken = ({ name }: { readonly name: string }) => name.toLowerCase() === 'file_row_number'
  const former = metadata.schemas.flatMap((schema) => fromIceberg(schema).fields)
  return !former.some(taken) && !next.columns.some(taken) && deletesByFile(scan) !== null
}

/** The files to be written anew, and those of which some rows go. @param found for each file how many rows are to go */
function part(
  { dir }: MergeContext,
  { base, scan, smallFileRows = SMALL_FILE_ROWS, maxDeletedShare = MAX_DELETED_SHARE }: MergeRequest,
  { rows }: StepResult,
): { readonly files: readonly ScanFile[]; readonly marked: readonly MarkedFile[] } {
  const going = new Map(rows.map(([uri, count]) => [String(uri), Number(count)]))
  const isSmall = (file: ScanFile) => file.rows < smallFileRows
  const small = scan.files.filter(isSmall)
  const gathers = base.spec.fields.length === 0 && small.length > MAX_SMALL_FILES
  const before = deletesByFile(scan)
  const marked: MarkedFile[] = []
  const files: ScanFile[] = []
  for (const file of scan.files) {
    const count = going.get(file.uri)
    if (count === undefined && !(gathers && isSmall(file))) continue
    const gone = (count ?? 0) + (before?.get(file.uri)?.rows ?? 0)
    const isMarked = !isSmall(file) && gone < file.rows * maxDeletedShare && marked.length < MAX_MARKED_FILES
    if (isMarked) marked.push(newMarkedFile(file, dir))
    else files.push(file)
  }
  return { files, marked }
}

const sameKey = (other: string, key: readonly string[]): string =>
  key.map((name) => `t.${quoteName(name)} = ${other}.${quoteName(name)}`).join(' AND ')

const ofKey = (schema: LakeSchema, key: readonly string[]): LakeSchema => ({
  ...schema,
  fields: schema.fields.filter(({ name }) => key.includes(name)),
})

const presentFile = ({ dir }: MergeContext): string => join(dir, 'present.parquet')

/** Keeps the keys that are present aside, counts what they tell, and does `find`, which may read both files. */
async function sweep(
  context: MergeContext,
  { base, scan, key, job }: MergeRequest,
  present: PresentKeys,
  known: {
    readonly schema: LakeSchema
    readonly file: string
    readonly find: readonly EngineStep[]
    readonly hits: string
  },
  signal: AbortSignal,
) {
  const { version, repeats = false } = present
  const isKept = ({ name }: { readonly name: string }) => key.includes(name) || name === version
  const schema = { ...known.schema, fields: known.schema.fields.filter(isKept) }
  const file = presentFile(context)
  const others = `ANTI JOIN read_parquet(${quoteText(known.file)}) c ON ${sameKey('c', key)}`
  const gone = `SELECT count(*) FROM ${BEFORE} t ANTI JOIN read_parquet(${quoteText(file)}) p ON ${sameKey('p', key)}
    ${others}`
  const unknown = `SELECT count(*) FROM read_parquet(${quoteText(file)}) t ANTI JOIN ${BEFORE} b ON ${sameKey('b', key)} ${others}`
  const stale = version === null ? '0' : `(${staleRows(file, key, version)} ${others})`
  const unexplained = `SELECT (${unknown}) + ${stale}`
  const outdated =
    repeats && version !== null && !key.includes(version) ? outdatedRows(known.file, file, key, version) : 'SELECT 0'
  const run = await context.engine.run(
    {
      ...present.job,
      trust: 'own',
      tables: [...(present.job.tables ?? []), engineTable(scan, [BEFORE], asWritten(base, schema))],
      steps: [
        ...(present.job.steps ?? []),
        keepAside(present.keys, file, schema),
        { sql: gone, rows: 'collect' },
        { sql: unexplained, rows: 'collect' },
        { sql: outdated, rows: 'collect' },
        ...known.find,
      ],
      readPaths: [...(present.job.readPaths ?? []), known.file, file, known.hits, ...scan.files.map(localOf)],
      writeDirs: [context.dir],
      limits: job.limits,
    },
    signal,
  )
  const own = run.results.slice((present.job.steps ?? []).filter((step) => step.rows === 'collect').length)
  const [left, differing, older, found] = own
  return { schema, found, gone: countIn(left), unexplained: countIn(differing), outdated: countIn(older) }
}

/** A key that is not enforced may be present more than once: one of them is enough. */
function staleRows(file: string, key: readonly string[], version: string): string {
  const column = quoteName(version)
  return `SELECT count(*) FROM ${BEFORE} t SEMI JOIN read_parquet(${quoteText(file)}) p ON ${sameKey('p', key)}
    ANTI JOIN read_parquet(${quoteText(file)}) q ON ${sameKey('q', key)} AND t.${column} IS NOT DISTINCT FROM q.${column}`
}

/**
 * What came between the reads of `changed` and of the keys is newer than the table, and the next merge's: it counts for none here.
 */
function outdatedRows(changed: string, present: string, key: readonly string[], version: string): string {
  const [column, keys] = [quoteName(version), key.map(quoteName).join(', ')]
  const isNewer = (one: string, other: string) =>
    `(${other}.${column} IS NULL OR ${one}.${column} > ${other}.${column})`
  const came = `SELECT count(*) FROM read_parquet(${quoteText(changed)}) t JOIN ${BEFORE} b ON ${sameKey('b', key)}
    SEMI JOIN read_parquet(${quoteText(present)}) p
      ON ${sameKey('p', key)} AND p.${column} <= b.${column} AND ${isNewer('p', 't')}`
  const newest = `SELECT ${keys}, max(${column}) AS ${column} FROM read_parquet(${quoteText(present)}) GROUP BY ALL`
  const stays = `SELECT count(*) FROM ${BEFORE} t JOIN (${newest}) p ON ${sameKey('p', key)} AND t.${column} > p.${column}
    ANTI JOIN read_parquet(${quoteText(changed)}) c ON ${sameKey('c', key)}`
  return `SELECT (${came}) + (${stays})`
}

const countIn = (result: StepResult | undefined): number => Number(result?.rows[0]?.[0] ?? 0)

/** Keeps aside where rows are that were changed or, by the keys that are present, are gone, and counts them for each file. */
function hitSteps(
  scan: Scan,
  schema: LakeSchema,
  key: readonly string[],
  aside: {
    readonly changed: string
    readonly present: string | null
    readonly gone: string | null
    readonly hits: string
  },
): readonly EngineStep[] {
  const keys = key.map(quoteName).join(', ')
  const joined = (kind: string, file: string) => {
    const rows = liveRows(
      scan,
      schema,
      key,
      `${kind} JOIN (SELECT ${keys} FROM read_parquet(${quoteText(file)})) USING (${keys})`,
    )
    return `SELECT ${FILE} AS file_path, ${POSITION} AS pos FROM ${rows}`
  }
  const parts = [
    joined('SEMI', aside.changed),
    ...(aside.gone === null ? [] : [joined('SEMI', aside.gone)]),
    ...(aside.present === null ? [] : [joined('ANTI', aside.present)]),
  ]
  const hits = quoteText(aside.hits)
  return [
    { sql: `COPY (${parts.join(' UNION ')}) TO ${hits} (FORMAT parquet)` },
    {
      sql: `SELECT file_path, count(*) FROM read_parquet(${hits}) GROUP BY file_path`,
      rows: 'collect',
      maxRows: scan.files.length,
    },
  ]
}

/** The new columns, by the ids that the files have them under: a column of another type is another one from now on. */
function asWritten(base: TableState, schema: LakeSchema): LakeSchema {
  const idOf = (name: string) => base.schema.fields.find((field) => field.name === name)?.id
  return { ...schema, fields: schema.fields.map((field) => ({ ...field, id: idOf(field.name) ?? field.id })) }
}

/** Finds the files with rows to delete; of the others nothing is read but the columns of the condition. */
export async function planDelete(
  context: Pick<MergeContext, 'engine'>,
  request: DeleteRequest,
  signal: AbortSignal,
): Promise<TouchedFiles> {
  const { base, scan, where, buried = false, job } = request
  const looked = buried ? { ...scan, deletes: [] } : scan
  const marks = hasMarks(scan.summary)
  const schema = { ...base.schema, fields: fileFields(base.schema.fields, marks) }
  const all = schema.fields.map((field) => field.name)
  const condition = `coalesce((${where}), false)`
  const sql = `SELECT DISTINCT ${FILE} FROM ${liveRows(looked, schema, all, `WHERE ${condition}`)}`
  const isFound = scan.files.length > 0 && findsPositions(base, scan, toTableSchema(base.schema))
  const run = isFound
    ? await context.engine.run(
        {
          ...job,
          trust: 'own',
          steps: [...(job.steps ?? []), { sql, rows: 'collect', maxRows: scan.files.length }],
          readPaths: [...(job.readPaths ?? []), ...[...scan.files, ...scan.deletes].map(localOf)],
        },
        signal,
      )
    : null
  const found = run?.results.at(-1)
  const files = found === undefined ? scan.files : namedIn(scan, found)
  const deletes = found === undefined ? scan.deletes : deletesOf(scan, files)
  return {
    job: { tables: [engineTable({ ...scan, files, deletes }, [TOUCHED], schema)], limits: job.limits },
    target: {
      ref: base.ref,
      base,
      select: `SELECT ${list('t', schema)} FROM ${TOUCHED} t WHERE NOT ${condition}`,
      schema: toTableSchema(base.schema),
      rows: 'keep',
      ...(marks ? { marks } : {}),
    },
    files,
    deletes,
    marked: [],
    results: run?.results.slice(0, -1) ?? [],
    gone: 0,
    unexplained: 0,
    outdated: 0,
  }
}

const FILE = quoteName(FILE_COLUMN)
const POSITION = 'file_row_number'

/**
 * The rows of the files that are not deleted, each with the address of its file and its place there.
 *
 * @param filter of the columns: what it leaves out is passed over where the files' bounds tell of it, and asked nothing else
 */
function liveRows(scan: Scan, schema: LakeSchema, columns: readonly string[], filter: string): string {
  const fields = schema.fields.filter((field) => columns.includes(field.name))
  const types = fields.map(
    ({ id, name, type }) =>
      `${id}: {name: ${quoteText(name)}, type: ${quoteText(fileType(type))}, default_value: NULL}`,
  )
  const files = scan.files.map(localOf)
  const uris = fileNames({ files, deletedFrom: scan.files.map(({ uri }) => uri) })
  const cells = fields.map(({ name, type }) => fromFile(name, type))
  const all = [...cells, FILE, POSITION].join(', ')
  const file = `SELECT ${all} FROM read_parquet([${files.map(quoteText).join(', ')}], schema = MAP {${types.join(', ')}}, filename = ${quoteText(FILE_COLUMN)}, file_row_number = true)`
  const read = `SELECT * REPLACE (${uris}[${FILE}] AS ${FILE}) FROM (${file}) ${filter}`
  if (scan.deletes.length === 0) return `(${read})`
  const deletes = scan.deletes.map((file) => quoteText(localOf(file))).join(', ')
  return `(SELECT * FROM (${read}) r ANTI JOIN (SELECT file_path, pos FROM read_parquet([${deletes}])) d
    ON r.${FILE} = d.file_path AND r.${POSITION} = d.pos)`
}

function namedIn(scan: Scan, { rows }: StepResult): readonly ScanFile[] {
  const uris = new Set(rows.map(([uri]) => String(uri)))
  return scan.files.filter((file) => uris.has(file.uri))
}

function keepAside(changed: string, file: string, schema: LakeSchema): EngineStep {
  return { sql: copyToFile(changed, schema.fields, file) }
}

function asideTable(name: string, file: string, schema: LakeSchema) {
  const columns = schema.fields.map(({ id, name: column, type }) => ({ name: column, type, fieldId: id }))
  return { name: [name], files: [file], columns }
}

const list = (alias: string, schema: LakeSchema): string =>
  schema.fields.map(({ name }) => `${alias}.${quoteName(name)}`).join(', ')

function localOf(file: ScanFile): string {
  if (file.localFile === null) throw new Error('the object store has no local files')
  return file.localFile
}
