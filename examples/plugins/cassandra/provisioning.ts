import { isDeepStrictEqual } from 'node:util'
import {
  checkPlanHash,
  type Host,
  type Plan,
  type PlanStep,
  planOfSteps,
  SluiceError,
  schemaConflict,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import type { Cluster } from './cluster.ts'
import { addressOf, BY_ADDRESS, type Dataset, findDataset } from './datasets.ts'
import type { Config } from './index.ts'
import { randomUuid } from './uuid.ts'

const ATTEMPTS = 10

export async function planProvision(cluster: Cluster, target: Target<Config>): Promise<Plan> {
  return planOfSteps(steps(await findDataset(cluster, target), target))
}

/** Each change of the register is conditional on what it was planned from; whoever is overtaken plans anew. */
export async function applyProvision(
  cluster: Cluster,
  host: Host,
  target: Target<Config>,
  expectedHash: string | undefined,
): Promise<Plan> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const dataset = await findDataset(cluster, target)
    const plan = planOfSteps(steps(dataset, target))
    checkPlanHash(plan, expectedHash)
    if (plan.steps.length === 0 || (await apply(cluster, host, target, dataset))) return plan
  }
  throw new SluiceError('TRANSIENT', 'others keep changing this dataset', { code: 'store_busy', remedy: 'Try again.' })
}

function steps(dataset: Dataset | null, target: Target<Config>): readonly PlanStep[] {
  const name = `${target.domain}.${target.product}`
  if (dataset === null) return [{ action: 'create', description: `register ${name}` }]
  if (!growsInto(dataset.schema, target.schema)) throw schemaConflict()
  if (isDeepStrictEqual([dataset.schema, dataset.config], [target.schema, target.config])) return []
  return [{ action: 'alter', description: `note the new columns of ${name}` }]
}

/** Rows stay as they are: new columns come last and may be null. */
function growsInto(former: TableSchema, next: TableSchema): boolean {
  const kept = next.columns.slice(0, former.columns.length)
  const added = next.columns.slice(former.columns.length)
  return (
    isDeepStrictEqual([former.columns, former.primaryKey], [kept, next.primaryKey]) &&
    added.every(({ nullable }) => nullable)
  )
}

function apply(cluster: Cluster, host: Host, target: Target<Config>, dataset: Dataset | null): Promise<boolean> {
  const wanted = [JSON.stringify(target.schema), JSON.stringify(target.config)]
  if (dataset === null) {
    return cluster.conditionally(
      'INSERT INTO datasets (tenant, domain, product, variant, shape, config, id) VALUES (?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS',
      [...addressOf(target), ...wanted, randomUuid(host)],
    )
  }
  const former = [JSON.stringify(dataset.schema), JSON.stringify(dataset.config)]
  return cluster.conditionally(
    `UPDATE datasets SET shape = ?, config = ? WHERE ${BY_ADDRESS} IF id = ? AND shape = ? AND config = ?`,
    [...wanted, ...addressOf(target), dataset.id, ...former],
  )
}
