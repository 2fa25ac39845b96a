/** The rows of a transform that runs in an engine outside, brought into the scratch folder as an embedded transform's are. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { quoteName } from '@sluice/engine'
import { type Column, type Compute, openTenantScope, SluiceError } from '@sluice/sdk'
import { arrivingColumns, arrivingName, csvOf } from '../compute/rows-csv.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import type { InputState } from './input-state.ts'
import { stagedColumns } from './staged-columns.ts'
import type { StagedRows } from './staged-rows.ts'
import type { TransformDeps } from './transform-deps.ts'

const ARRIVING = 'arriving'

/** Its pages stream through one engine job into parquet; nothing of them is kept in memory or anywhere else. */
export async function distributedRows(
  inputs: readonly InputState[],
  manifests: ManifestSet,
  schema: readonly Column[],
  deps: TransformDeps,
): Promise<Omit<StagedRows, 'primaryKey'>> {
  const columns = stagedColumns(schema)
  const dir = join(deps.directory, 'output')
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const { timeoutMs } = deps.limits
  const ended = new AbortController()
  const rows = configured(deps.distributed).transform({
    scope: openTenantScope(deps.tenant),
    inputs: inputs.map(relationOf),
    transform: manifests.compute.transform,
    columns: schema,
    timeoutMs,
    signal: AbortSignal.any([deps.signal, ended.signal]),
  })
  try {
    const run = await deps.engine.run(
      {
        trust: 'own',
        csvInput: { name: ARRIVING, columns: arrivingColumns(schema), source: csvOf(rows.pages) },
        output: {
          kind: 'parquet-files',
          sql: `SELECT ${schema.map(arrived).join(', ')} FROM ${ARRIVING}`,
          dir,
          columns: columns.map(({ name, type, id }) => ({ name, type, fieldId: id })),
        },
        limits: { ...deps.ownLimits, timeoutMs },
      },
      deps.signal,
    )
    return {
      files: run.files.filter((file) => file.rows > 0).map((file) => file.path),
      columns,
      rowCount: run.files.reduce((sum, file) => sum + file.rows, 0),
      lost: rows.lost(),
    }
  } finally {
    // A job that ends before its input would leave the statement running.
    ended.abort()
  }
}

function relationOf({ input, state, table }: InputState) {
  const columns = input.columns ? state.columns.filter(({ name }) => input.columns?.includes(name)) : state.columns
  const { namespace, table: name } = table
  return {
    alias: input.name,
    columns,
    where: input.where,
    table: { namespace, table: name, snapshotId: state.snapshotId },
  }
}

const arrived = ({ name }: Column, at: number): string => `${arrivingName(at)} AS ${quoteName(name)}`

function configured(distributed: Compute | null): Compute {
  if (distributed !== null) return distributed
  throw new SluiceError('CONFIG', 'the product is transformed by an engine outside, and none is configured', {
    code: 'distributed_not_configured',
    remedy: 'Set compute in the configuration, or deploy the product with engine: embedded.',
  })
}
