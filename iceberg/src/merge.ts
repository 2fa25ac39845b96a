import { join } from 'node:path'
import {
  type EngineStep,
  FILE_COLUMN,
  fileCell,
  fileType,
  fromFile,
  parquetOptions,
  quoteName,
  quoteText,
  type StepResult,
} from '@sluice/engine'
import type { TableSchema } from '@sluice/sdk'
import { fileFields, hasMarks } from './format/marks.ts'
import { type LakeSchema, toTableSchema } from './format/table-schema.ts'
import { engineTable, type Scan, type ScanFile } from './scan.ts'
import type { ObjectStore } from './store/object-store.ts'
import type { TableState } from './table-state.ts'
import { type JobRunner, planTable, type WriteJob, type WriteTarget } from './write.ts'

/**
 * A change of some rows, by writing anew only the files that hold any of them (copy-on-write: readers see plain files,
 * and no engine has to know of delete files).
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
  /** A statement: the keys, none of `changed`, whose rows go. */
  readonly gone?: string
  /** Asked for once `changed` has been read. Absent: rows whose keys are not among `changed` stay. */
  readonly present?: () => Promise<PresentKeys>
  readonly sortBy?: readonly string[]
  readonly targetFileBytes?: number
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
}

export interface DeleteRequest {
  readonly base: TableState
  readonly scan: Scan
  /** One boolean SQL expression over the table's columns: rows for which it is true go. Its trust is the runtime's. */
  readonly where: string
  readonly job: WriteJob
}

/** What `Lake.write` is to be given, and what the commit removes. */
export interface TouchedFiles {
  readonly job: WriteJob
  readonly target: WriteTarget
  /** The files whose rows are written anew, or are gone. */
  readonly files: readonly ScanFile[]
  /** Of the request's own job. */
  readonly results: readonly StepResult[]
  /** How many rows go because their key is not among those that are present. */
  readonly gone: number
  /** Keys that are present and that neither the table nor `changed` has, or the table in another version alone. */
  readonly unexplained: number
}

const CHANGED = 'lake_changed'
const PRESENT = 'lake_present'
const GONE = 'lake_gone'
const BEFORE = 'lake_before'
const TOUCHED = 'lake_touched'

interface MergeContext {
  readonly store: ObjectStore
  readonly engine: JobRunner
  /** An empty folder that is there until the write has ended. */
  readonly dir: string
}

/** Keeps the changed rows aside and finds the files that hold one of their keys, reading the key columns alone. */
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
  const looksForKeys = rows === 'keep' && scan.files.length > 0 && scan.deletes.length === 0
  const gone =
    request.gone === undefined ? null : { file: join(context.dir, 'gone.parquet'), schema: ofKey(schema, key) }
  const others = { present: present ? presentFile(context) : null, gone: gone?.file ?? null }
  const find = looksForKeys ? [touchedStep(scan, schema, key, file, others)] : []
  const aside = [
    ...(job.steps ?? []),
    keepAside(request.changed, file, schema),
    ...(gone === null ? [] : [keepAside(request.gone as string, gone.file, gone.schema)]),
    ...(present ? [] : find),
  ]
  const asides = gone === null ? [file] : [file, gone.file]
  const readPaths = [...(job.readPaths ?? []), ...asides, ...scan.files.map(localOf)]
  const own = { ...job, trust: 'own', steps: aside, readPaths, writeDirs: [context.dir] } as const
  const run = await context.engine.run(own, signal)
  const swept = present ? await sweep(context, request, await present(), { schema, file, find }, signal) : null
  const found = looksForKeys ? (swept?.found ?? run.results.at(-1)) : undefined
  // With delete files around, rows cannot be told from those that are gone by their file alone: all is written anew.
  const files = found === undefined ? scan.files : namedIn(scan, found)
  const columns = schema.fields.map((field) => quoteName(field.name)).join(', ')
  const without = gone === null ? '' : ` ANTI JOIN ${GONE} g ON ${sameKey('g', key)}`
  const kept = `SELECT ${list('t', schema)} FROM ${TOUCHED} t ANTI JOIN ${CHANGED} c ON ${sameKey('c', key)}${without}`
  const stays = swept ? ` SEMI JOIN ${PRESENT} p ON ${sameKey('p', key)}` : ''
  return {
    job: {
      tables: [
        engineTable({ ...scan, files }, [TOUCHED], asWritten(base, schema)),
        asideTable(CHANGED, file, schema),
        ...(swept ? [asideTable(PRESENT, presentFile(context), swept.schema)] : []),
        ...(gone === null ? [] : [asideTable(GONE, gone.file, gone.schema)]),
      ],
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
    results: looksForKeys && !present ? run.results.slice(0, -1) : run.results,
    gone: swept?.gone ?? 0,
    unexplained: swept?.unexplained ?? 0,
  }
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
  known: { readonly schema: LakeSchema; readonly file: string; readonly find: readonly EngineStep[] },
  signal: AbortSignal,
) {
  const { version } = present
  const isKept = ({ name }: { readonly name: string }) => key.includes(name) || name === version
  const schema = { ...known.schema, fields: known.schema.fields.filter(isKept) }
  const file = presentFile(context)
  const others = `ANTI JOIN read_parquet(${quoteText(known.file)}) c ON ${sameKey('c', key)}`
  const gone = `SELECT count(*) FROM ${BEFORE} t ANTI JOIN read_parquet(${quoteText(file)}) p ON ${sameKey('p', key)}
    ${others}`
  const unknown = `SELECT count(*) FROM read_parquet(${quoteText(file)}) t ANTI JOIN ${BEFORE} b ON ${sameKey('b', key)} ${others}`
  const stale = version === null ? '0' : `(${staleRows(file, key, version)} ${others})`
  const unexplained = `SELECT (${unknown}) + ${stale}`
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
        ...known.find,
      ],
      readPaths: [...(present.job.readPaths ?? []), known.file, file, ...scan.files.map(localOf)],
      writeDirs: [context.dir],
      limits: job.limits,
    },
    signal,
  )
  const own = run.results.slice((present.job.steps ?? []).filter((step) => step.rows === 'collect').length)
  const [left, differing, found] = own
  return { schema, found, gone: countIn(left), unexplained: countIn(differing) }
}

/** A key that is not enforced may be present more than once: one of them is enough. */
function staleRows(file: string, key: readonly string[], version: string): string {
  const column = quoteName(version)
  return `SELECT count(*) FROM ${BEFORE} t SEMI JOIN read_parquet(${quoteText(file)}) p ON ${sameKey('p', key)}
    ANTI JOIN read_parquet(${quoteText(file)}) q ON ${sameKey('q', key)} AND t.${column} IS NOT DISTINCT FROM q.${column}`
}

const countIn = (result: StepResult | undefined): number => Number(result?.rows[0]?.[0] ?? 0)

/** The names of the files with a row that was changed or, by the keys that are present, is gone. */
function touchedStep(
  scan: Scan,
  schema: LakeSchema,
  key: readonly string[],
  changed: string,
  { present, gone }: { readonly present: string | null; readonly gone: string | null },
): EngineStep {
  const rows = namedRows(scan, schema, key)
  const keys = key.map(quoteName).join(', ')
  const joined = (kind: string, file: string) =>
    `SELECT DISTINCT ${FILE} FROM ${rows} ${kind} JOIN (SELECT ${keys} FROM read_parquet(${quoteText(file)})) USING (${keys})`
  const parts = [
    joined('SEMI', changed),
    ...(gone === null ? [] : [joined('SEMI', gone)]),
    ...(present === null ? [] : [joined('ANTI', present)]),
  ]
  return { sql: parts.join(' UNION '), rows: 'collect', maxRows: scan.files.length }
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
  const { base, scan, where, job } = request
  const marks = hasMarks(scan.summary)
  const schema = { ...base.schema, fields: fileFields(base.schema.fields, marks) }
  const all = schema.fields.map((field) => field.name)
  const condition = `coalesce((${where}), false)`
  const sql = `SELECT DISTINCT ${FILE} FROM ${namedRows(scan, schema, all)} WHERE ${condition}`
  const isFound = scan.files.length > 0 && scan.deletes.length === 0
  const run = isFound
    ? await context.engine.run(
        {
          ...job,
          trust: 'own',
          steps: [...(job.steps ?? []), { sql, rows: 'collect', maxRows: scan.files.length }],
          readPaths: [...(job.readPaths ?? []), ...scan.files.map(localOf)],
        },
        signal,
      )
    : null
  const found = run?.results.at(-1)
  const files = found === undefined ? scan.files : namedIn(scan, found)
  return {
    job: { tables: [engineTable({ ...scan, files }, [TOUCHED], schema)], limits: job.limits },
    target: {
      ref: base.ref,
      base,
      select: `SELECT ${list('t', schema)} FROM ${TOUCHED} t WHERE NOT ${condition}`,
      schema: toTableSchema(base.schema),
      rows: 'keep',
      ...(marks ? { marks } : {}),
    },
    files,
    results: run?.results.slice(0, -1) ?? [],
    gone: 0,
    unexplained: 0,
  }
}

const FILE = quoteName(FILE_COLUMN)

/** The rows of the files, each with the name of its file. */
function namedRows(scan: Scan, schema: LakeSchema, columns: readonly string[]): string {
  const fields = schema.fields.filter((field) => columns.includes(field.name))
  const types = fields.map(
    ({ id, name, type }) =>
      `${id}: {name: ${quoteText(name)}, type: ${quoteText(fileType(type))}, default_value: NULL}`,
  )
  const files = scan.files.map((file) => quoteText(localOf(file))).join(', ')
  const cells = [...fields.map(({ name, type }) => fromFile(name, type)), FILE].join(', ')
  return `(SELECT ${cells} FROM read_parquet([${files}], schema = MAP {${types.join(', ')}}, filename = ${quoteText(FILE_COLUMN)}))`
}

function namedIn(scan: Scan, { rows }: StepResult): readonly ScanFile[] {
  const names = new Set(rows.map(([name]) => String(name)))
  return scan.files.filter((file) => names.has(localOf(file)))
}

function keepAside(changed: string, file: string, schema: LakeSchema): EngineStep {
  const columns = schema.fields.map(({ name, type }) => fileCell(name, type))
  const ids = schema.fields.map(({ id, name }) => `${quoteName(name)}: ${id}`)
  const rows = `SELECT ${columns.join(', ')} FROM (${changed}\n)`
  const options = [...parquetOptions(schema.fields.map(({ type }) => type)), `FIELD_IDS {${ids.join(', ')}}`]
  return { sql: `COPY (${rows}) TO ${quoteText(file)} (${options.join(', ')})` }
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
