/** The rows of a transform that runs in Trino, brought into the scratch folder as an embedded transform's are. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { quoteName } from '@sluice/engine'
import { type Column, SluiceError } from '@sluice/sdk'
import type { DistributedCompute } from '../compute/distributed.ts'
import { csvColumns } from '../compute/rows-csv.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { stagedColumns } from './staged-columns.ts'
import type { InputState, StagedRows, TransformDeps } from './transform.ts'

const ARRIVING = 'arriving'

/** Trino's pages stream through one engine job into parquet; nothing of them is kept in memory or anywhere else. */
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
  const rows = configured(deps.distributed).rows({
    tenant: deps.tenant,
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
        csvInput: { name: ARRIVING, columns: csvColumns(schema), source: rows.csv },
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
  return { alias: input.name, columns, where: input.where, table, snapshotId: state.snapshotId }
}

function arrived({ name, type }: Column): string {
  return type === 'binary' ? `from_hex(${quoteName(name)}) AS ${quoteName(name)}` : quoteName(name)
}

function configured(distributed: DistributedCompute | null): DistributedCompute {
  if (distributed !== null) return distributed
  throw new SluiceError('CONFIG', 'the product is transformed in Trino, and no Trino is configured', {
    code: 'distributed_not_configured',
    remedy: 'Set compute.trino in the configuration, or deploy the product with engine: embedded.',
  })
}
