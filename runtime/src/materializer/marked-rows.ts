/**
 * Rows that came without a value which cannot be carried, and say so: a product that uses the column is made without them, and
 * any other with them.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { FILE_COLUMN, fileNames, quoteName, quoteText } from '@sluice/engine'
import { MARKS } from '@sluice/iceberg'
import { SluiceError } from '@sluice/sdk'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { exceeds, MAX_REJECTED } from '../quality/max-rejected.ts'
import type { InputState } from './input-state.ts'
import { stateTable } from './lake-state.ts'
import type { TransformDeps } from './transform-deps.ts'

type MarkedDeps = Pick<TransformDeps, 'engine' | 'ownLimits' | 'directory' | 'signal'>

/**
 * The inputs as their product reads them. Throws INVALID_DATA `too_many_rejected` where more rows are left out than the product
 * bears with.
 */
export async function withoutMarkedRows(
  inputs: readonly InputState[],
  manifests: Pick<ManifestSet, 'quality'>,
  deps: MarkedDeps,
): Promise<readonly InputState[]> {
  const kept: InputState[] = []
  for (const input of inputs) kept.push(await withoutMarked(input, manifests, deps))
  return kept
}

async function withoutMarked(
  one: InputState,
  { quality }: Pick<ManifestSet, 'quality'>,
  deps: MarkedDeps,
): Promise<InputState> {
  const { input, state, marked = [] } = one
  if (marked.length === 0 || state.files.length === 0) return one
  const { file, rows } = await listMarked(one, marked, deps)
  if (rows === 0) return one
  const limit = quality.maxRejected ?? MAX_REJECTED
  if (exceeds(rows, state.rowCount, limit)) throw tooManyMarked(input.name, limit)
  const { deletes = [], deletedFrom = state.files } = state.deletes ?? {}
  return {
    ...one,
    leftOut: rows,
    state: { ...state, rowCount: state.rowCount - rows, deletes: { deletes: [...deletes, file], deletedFrom } },
  }
}

/** As a file of position deletes, so that nothing of the rows is copied. */
async function listMarked(
  { input, state }: InputState,
  marked: readonly string[],
  { engine, ownLimits, directory, signal }: MarkedDeps,
): Promise<{ readonly file: string; readonly rows: number }> {
  const dir = join(directory, `marked-${input.name}`)
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const file = join(dir, 'rows.parquet')
  const table = stateTable(input.name, state)
  const column = quoteName(MARKS.name)
  const schema = `MAP {${MARKS.id}: {name: ${quoteText(MARKS.name)}, type: 'VARCHAR', default_value: NULL}}`
  const rows = `read_parquet([${state.files.map(quoteText).join(', ')}], schema = ${schema}, filename = ${quoteText(FILE_COLUMN)}, file_row_number = true)`
  const found = `list_has_any(from_json(${column}, '["VARCHAR"]'), [${marked.map(quoteText).join(', ')}])`
  // Of a mark that cannot be understood nobody knows what its row lacks.
  const meets = `CASE WHEN json_valid(${column}) THEN coalesce(${found}, true) ELSE true END`
  const all = `SELECT ${fileNames(table)}[${quoteName(FILE_COLUMN)}] AS file_path, file_row_number AS pos FROM ${rows}
    WHERE ${column} IS NOT NULL AND ${meets}`
  // What is gone already is not left out once more.
  const { deletes = [] } = state.deletes ?? {}
  const gone = `SELECT file_path, pos FROM read_parquet([${deletes.map(quoteText).join(', ')}])`
  const listed = deletes.length === 0 ? all : `FROM (${all}) ANTI JOIN (${gone}) USING (file_path, pos)`
  const { results } = await engine.run(
    {
      trust: 'own',
      // Nothing is read by it: a file that is broken is told of by its table.
      tables: [table],
      steps: [
        { sql: `COPY (${listed}) TO ${quoteText(file)} (FORMAT parquet)` },
        { sql: `SELECT count(*) FROM read_parquet(${quoteText(file)})`, rows: 'collect' },
      ],
      readPaths: [...state.files, ...deletes, file],
      writeDirs: [dir],
      limits: ownLimits,
    },
    signal,
  )
  return { file, rows: Number(results[0]?.rows[0]?.[0] ?? 0) }
}

/** Says of no column how many of its values it is: runs are read by who may not read the table. */
function tooManyMarked(
  name: string,
  { percent, rows }: { readonly percent: number; readonly rows: number },
): SluiceError {
  return new SluiceError(
    'INVALID_DATA',
    `more than ${percent} % and more than ${rows} rows of the input "${name}" have no value that can be carried of a column which the product uses`,
    {
      code: 'too_many_rejected',
      remedy:
        'Correct the rows that the quarantine of the connection lists and sync again, or allow more with max_rejected in quality.yaml. The product is as it was.',
    },
  )
}
