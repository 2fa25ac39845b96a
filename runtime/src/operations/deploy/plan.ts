/** What deploying a version would change, in words. */
import {
  CLEAR,
  checkNames,
  isSluiceError,
  type Plan,
  planOfSteps,
  type SchemaVerdict,
  type ServingStore,
  type SluiceError,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import type { Compatibility } from '../../manifest/compatibility.ts'
import { qualified } from '../../manifest/context.ts'
import { digestOf } from '../../manifest/digest.ts'
import type { Input, ManifestSet } from '../../manifest/manifest-set.ts'
import type { Problem } from '../../manifest/problem.ts'
import { hasPlaces } from '../../materializer/places.ts'
import { isSchemaConflict } from '../../materializer/store-sync.ts'
import { targetFor } from '../../materializer/targets.ts'
import { planVariants, servesVariant } from '../../materializer/variants.ts'
import type { ServingType } from '../../plugins/plugin-set.ts'
import type { Deployment } from '../../registry/deployments.ts'
import { endpointStates } from '../../registry/endpoint-states.ts'
import type { Product } from '../../registry/products.ts'
import type { InputRead } from '../products/input-reads.ts'
import type { SharedCheck } from '../products/shared-checks.ts'
import type { Checked } from './checked.ts'
import type { DeployDeps } from './deps.ts'
import type { AccessPlan } from './group-columns.ts'
import type { PlaceCost, RowEstimate } from './plan-cost.ts'
import type { RowsPlan } from './plan-rows.ts'
import type { Reached } from './raised-classes.ts'
import type { Downstream } from './upstreams.ts'

export interface DeployPlan {
  readonly version: string
  readonly verdict: 'initial' | Compatibility['verdict']
  readonly changes: Compatibility['changes']
  readonly lake: readonly string[]
  readonly stores: readonly StorePlan[]
  readonly estimatedRows: number | null
  /** How that is known. Null: it is not. */
  readonly estimatedFrom: RowEstimate['from']
  /** Null: not asked for, as by a deployment, which makes the rows anyway. */
  readonly rows: RowsPlan | null
  /** Who is shown what. Null as `rows`. */
  readonly access: AccessPlan | null
  /** What is written, where. Null as `rows`. */
  readonly cost: readonly PlaceCost[] | null
  /** Columns whose class the version makes lower. */
  readonly loweredClasses: readonly string[]
  /** Other products with columns made of source columns that are hidden from now on. */
  readonly reaches: readonly Reached[]
  /** Products in service that are made of this one. */
  readonly downstream: readonly Downstream[]
  readonly warnings: readonly Problem[]
  /** Checks of other products that it runs, in full. */
  readonly sharedChecks: readonly SharedCheck[]
  /** How each input is read from the next sync on. */
  readonly reads: readonly InputRead[]
  /** What happens beside the change itself, in sentences. */
  readonly notes: readonly string[]
  /** What would refuse the deployment itself; a dry run tells it, with the rest of the plan. */
  readonly problems: readonly DeployProblem[]
}

export interface DeployAnswer {
  readonly dryRun: boolean
  /** Of the manifests that the plan is of: a deployment that names it deploys these, or nothing. */
  readonly digest: string
  /** Of what the stores would do: a deployment that names it has them do this, or is refused. */
  readonly storesHash: string
  readonly plan: DeployPlan
  readonly deployment: Deployment | null
  readonly runId: string | null
}

/** What a store would do for one variant. */
export interface StorePlan {
  readonly endpoint: string
  readonly variant: string
  readonly steps: Plan['steps']
  /** Of the steps, as the store gives it: its place is made by this plan, or by a new one that is told. Null: built anew. */
  readonly hash: string | null
  /** What the store makes of each column, where it judges schemas: see `SchemaVerdict`. */
  readonly columns: readonly {
    readonly name: string
    readonly verdict: SchemaVerdict['verdict']
    readonly reason: string
  }[]
}

export interface DeployProblem {
  /** Of the error that deploying would throw. */
  readonly code: string
  readonly message: string
  readonly remedy: string | null
}

/** For the plan: an input whose raw table lacks values that the version uses. */
export function lackingNote({ name, connection }: Input): string {
  return `the input "${name}" was read when no product used all these columns, and lacks values of them: the next sync of "${connection}" reads the table whole, and the product is made of it then`
}

export function lakeChanges(live: ManifestSet | null, next: ManifestSet): readonly string[] {
  const name = `${next.product.domain}.${next.product.name}`
  if (live === null) return [`create table ${name} with ${next.output.columns.length} columns`]
  const before = new Map(live.output.columns.map((column) => [column.name, column]))
  const after = new Map(next.output.columns.map((column) => [column.name, column]))
  return [
    ...[...after.values()]
      .filter((column) => !before.has(column.name))
      .map((column) => `add column ${column.name} ${column.type}`),
    ...[...before.keys()].filter((column) => !after.has(column)).map((column) => `drop column ${column}`),
    ...[...after.values()]
      .filter((column) => before.has(column.name) && before.get(column.name)?.type !== column.type)
      .map((column) => `change column ${column.name} from ${before.get(column.name)?.type} to ${column.type}`),
  ]
}

/** Throws INVALID_DATA `unusable_name` where a store of the product cannot hold one of its names. */
export async function storePlans(
  platform: DeployDeps,
  product: Product,
  manifests: ManifestSet,
  live: ManifestSet | null,
): Promise<DeployPlan['stores']> {
  const plans: StorePlan[] = []
  const states = await endpointStates(platform.pool, product.id)
  const former = live === null ? [] : planVariants(live.output, [], platform.rules)
  for (const { type, config } of manifests.serving.endpoints) {
    const serving = platform.plugins.serving(type)
    // Of an endpoint that comes with the version there is nothing that its store could be asked to change.
    const wasServed = live?.serving.endpoints.some((one) => one.type === type) ?? false
    for (const variant of planVariants(manifests.output, [], platform.rules)) {
      if (!serving || !servesVariant(type, config, variant, manifests.output)) continue
      const state = states.find((one) => one.endpoint === type && one.variant === variant.variant)
      const target = targetFor(product, variant, config, state?.place ?? 'first')
      checkNames(target, serving.plugin.capabilities)
      const before = wasServed ? former.find((one) => one.variant === variant.variant) : undefined
      const previous = before?.schema ?? null
      const columns = await verdictsOf(serving.store, target, previous)
      plans.push({ endpoint: type, variant: variant.variant, ...(await stepsOf(serving, target)), columns })
    }
  }
  return plans.sort((a, b) => Number(b.variant === CLEAR) - Number(a.variant === CLEAR))
}

/** @param previous as the version in service has the variant */
async function verdictsOf(
  store: ServingStore,
  target: Target,
  previous: TableSchema | null,
): Promise<StorePlan['columns']> {
  const judged = async (former: TableSchema | null) => (await store.validate?.(target, former)) ?? []
  // It reads the former schema by the new config, which may name what that has not: then nothing of it can be changed into this.
  const unreadable = (error: unknown) =>
    previous !== null && isSluiceError(error, 'CONFIG') ? judged(null) : Promise.reject(error)
  const verdicts = await judged(previous).catch(unreadable)
  return verdicts.map(({ column, verdict, reason }) => ({ name: column.name, verdict, reason }))
}

/** A copy that cannot be changed into what is wanted is built anew from the lake: beside the one that is read, where the store has room. */
async function stepsOf(
  { store, plugin }: Pick<ServingType, 'store' | 'plugin'>,
  target: Target,
): Promise<Pick<StorePlan, 'steps' | 'hash'>> {
  try {
    const { steps, hash } = await store.provision(target, 'plan')
    return { steps, hash }
  } catch (error) {
    if (!isSchemaConflict(error)) throw error
    const { steps } = await store.drop(target, 'plan')
    const reason = (error as SluiceError).message
    const beside = hasPlaces(plugin) ? ', beside the one that is read until it is whole' : ''
    return {
      steps: [...steps, { action: 'replace', description: `build the copy anew from the lake${beside}: ${reason}` }],
      hash: null,
    }
  }
}

/**
 * Of what all stores would do, and of which inputs are read by a log that nobody has written: a deployment that names it does just
 * this, or is refused.
 */
export function storesHash({
  plan,
  meant,
}: Pick<Checked, 'meant'> & { readonly plan: Pick<DeployPlan, 'stores'> }): string {
  const facts = plan.stores.map(({ endpoint, variant, steps, hash }) => [
    endpoint,
    variant,
    hash ?? planOfSteps(steps).hash,
  ])
  const chosen = meant.inputs.filter(({ isChosen }) => isChosen === true).map(({ name, mode }) => [name, mode])
  return digestOf([...facts, ...chosen])
}

/** Of the table that is taken as it is, as its source estimates it; null where rows are left out or made of others. */
export function sourceRows(
  { inputs: [input], compute }: ManifestSet,
  estimates: ReadonlyMap<string, number | null>,
): number | null {
  if (input === undefined || input.where !== null || compute.transform !== null) return null
  return estimates.get(`${input.connection}:${qualified(input.table)}`) ?? null
}
