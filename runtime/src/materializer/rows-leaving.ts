import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { quoteName } from '@sluice/engine'
import { type ManifestSet, outputSchema } from '../manifest/manifest-set.ts'
import type { Product } from '../registry/products.ts'
import type { MaterializeDeps } from './deps.ts'
import { type InputDeps, readInputs } from './inputs.ts'
import { stateOfScan, stateTable } from './lake-state.ts'
import { withoutMarkedRows } from './marked-rows.ts'
import { stagedTable } from './staged-rows.ts'
import { rowGiver, rowRules, transformRows } from './transform.ts'
import { lakeTable } from './variants.ts'

export interface LeavingDeps
  extends Pick<MaterializeDeps, 'pool' | 'engine' | 'distributed' | 'lake' | 'scratchDirectory'>,
    Pick<InputDeps, 'upstreamOf'> {
  /** Of the author's SQL, and of ours. */
  readonly limits: MaterializeDeps['limits']
}

/**
 * How many rows of the product these manifests have no key for, by the inputs that lie in the lake. Writes nothing but
 * files of its own, which go. Throws as a materialization does.
 */
export async function rowsLeaving(
  product: Product,
  manifests: ManifestSet,
  deps: LeavingDeps,
  signal: AbortSignal,
): Promise<number> {
  const { engine, distributed, lake, limits } = deps
  const table = await lake.load(lakeTable(product.tenant, product.domain, product.name, 'clear'), { signal })
  const before = table && stateOfScan(await lake.scan(table, {}, signal))
  if (before === null || before.rowCount === 0) return 0
  const read = await readInputs(product, manifests, signal, deps)
  await mkdir(deps.scratchDirectory, { recursive: true, mode: 0o700 })
  const directory = await mkdtemp(join(deps.scratchDirectory, 'plan-'))
  try {
    const schema = outputSchema(manifests.output)
    const inputs = await withoutMarkedRows(read, manifests, { engine, ownLimits: limits, directory, signal })
    const staged = await transformRows(inputs, manifests, schema, {
      tenant: product.tenant,
      engine,
      distributed,
      limits,
      ownLimits: limits,
      directory,
      signal,
    })
    const sameKey = schema.primaryKey.map((name) => `b.${quoteName(name)} = o.${quoteName(name)}`).join(' AND ')
    const rules = rowRules('output', schema, rowGiver(manifests))
    const { results } = await engine.run(
      {
        trust: 'own',
        tables: [stateTable('before', before), stagedTable('output', staged)],
        steps: [
          ...rules.steps,
          { sql: `SELECT count(*) FROM "before" b ANTI JOIN output o ON ${sameKey}`, rows: 'collect' },
        ],
        limits,
      },
      signal,
    )
    const own = rules.steps.length
    rules.judge(results.slice(0, own))
    return Number(results[own]?.rows[0]?.[0] ?? 0)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
