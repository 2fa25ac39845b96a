/** Does what a plan of a folder says, product by product, and stops at the first that fails. */
import {
  type ApplyChoices,
  loweredOf,
  type PlannedProduct,
  planProduct,
  productsOf,
  type ServerProduct,
} from './apply-plan.ts'
import { nameOf } from './apply-table.ts'
import type { Client } from './client.ts'
import type { DeployAnswer } from './deploy-answer.ts'
import { pathOf } from './product-files.ts'
import { inOrder, namedIn } from './product-order.ts'
import { followRun, type ProgressOutput, STDERR } from './run-progress.ts'
import { plain } from './text-table.ts'

export interface Applied {
  readonly deployed: readonly { readonly product: string; readonly version: string }[]
  readonly removed: readonly string[]
  /** Connections whose next sync makes content that is not there yet. */
  readonly toSync: readonly string[]
  /** Null: all was done. */
  readonly failed: Failure | null
  /** What was not begun, after a failure. */
  readonly left: readonly string[]
}

export interface Failure {
  readonly product: string
  readonly message: string
  readonly remedy: string
}

export interface ApplyWork {
  readonly planned: readonly PlannedProduct[]
  /** In the order in which they go. */
  readonly removed: readonly ServerProduct[]
  readonly choices: ApplyChoices
  readonly waits: boolean
}

const AGAIN = 'Mend it and say the same again: what is done is unchanged then.'

export async function applyPlan(client: Client, work: ApplyWork, output: ProgressOutput = STDERR): Promise<Applied> {
  const steps = [
    ...work.planned
      .filter(({ action }) => action === 'create' || action === 'change')
      .map((planned) => ({ name: planned.product.name, planned })),
    ...work.removed.map((server) => ({ name: nameOf(server), planned: null })),
  ]
  const deployed: { product: string; version: string }[] = []
  const removed: string[] = []
  const toSync = new Set<string>()
  for (const [at, { name, planned }] of steps.entries()) {
    const failed = (message: string, remedy: string): Applied => ({
      deployed,
      removed,
      toSync: [...toSync],
      failed: { product: name, message, remedy },
      left: steps.slice(at + 1).map((step) => step.name),
    })
    try {
      if (planned === null) {
        await client.request('DELETE', pathOf(name))
        removed.push(name)
        continue
      }
      const done = await deploy(client, planned, work.choices)
      if (done === null) continue
      const { version, runId, connections } = done
      deployed.push({ product: name, version })
      output.write(`${plain(name)} ${version} is deployed\n`)
      if (runId === null) for (const connection of connections) toSync.add(connection)
      const failure = runId !== null && work.waits ? await contentFailure(client, runId, output) : null
      if (failure === null) continue
      return failed(
        `version ${version} is deployed, and its content was not made: ${failure}`,
        `Mend the cause and make it: sluice product materialize ${name}. Then say the same again for the rest.`,
      )
    } catch (error) {
      return failed((error as Error).message, AGAIN)
    }
  }
  return { deployed, removed, toSync: [...toSync], failed: null, left: [] }
}

async function contentFailure(client: Client, runId: string, output: ProgressOutput): Promise<string | null> {
  try {
    await followRun(client, runId, null, output)
    return null
  } catch (error) {
    const { message, remedy } = error as Error & { readonly remedy?: string }
    return remedy === undefined ? message : `${message}\n${remedy}`
  }
}

interface Deployed {
  readonly version: string
  readonly runId: string | null
  readonly connections: readonly string[]
}

/** Null where it was found to be deployed already. Throws what refuses it. */
async function deploy(client: Client, planned: PlannedProduct, choices: ApplyChoices): Promise<Deployed | null> {
  const { product } = planned
  const path = pathOf(product.name)
  const { digest, version, breaks = [] } = planned.digest === null ? await planNow(client, planned, choices) : planned
  if (digest === null) return null
  const server = (await client.find(path)) as { readonly current_version: string | null } | null
  if ((server?.current_version ?? null) !== planned.deployed)
    throw new Error(`somebody has deployed ${server?.current_version} since it was planned`)
  if (server === null) await client.request('POST', '/api/v1/products', product.registration)
  await client.upload(`${path}/manifests`, product.texts)
  const meant = { version, digest, lower: loweredOf(product.name, choices), breaks }
  const answer = (await client.request('POST', `${path}/deploy`, { dry_run: false, ...meant })) as DeployAnswer
  const connections = answer.plan.reads.flatMap(({ connection }) => connection ?? [])
  return { version: version as string, runId: answer.run_id ?? null, connections }
}

/** What could not be planned before those that it names were deployed. Throws what refuses it. */
async function planNow(client: Client, waiting: PlannedProduct, choices: ApplyChoices): Promise<PlannedProduct> {
  const { product, breaks = [] } = waiting
  const server = (await productsOf(client)).get(product.name) ?? null
  const planned = await planProduct(client, product, server, choices, { before: [], breaks })
  if (planned.action === 'refused') throw new Error(planned.refusals.join('\n'))
  return planned
}

/** Those that name others go before them. Throws where a product that stays names one that would go. */
export async function removalOrder(
  client: Client,
  removed: readonly ServerProduct[],
  planned: readonly PlannedProduct[],
): Promise<readonly ServerProduct[]> {
  const going = new Set(removed.map(nameOf))
  for (const { product } of planned) {
    const named = product.names.find((name) => going.has(name))
    if (named !== undefined)
      throw new Error(`${product.name} of the folder names ${named}, which --prune would remove; nothing was done`)
  }
  const texts = removed.map(async (server) => {
    const { name, current_version: version } = { ...server, name: nameOf(server) }
    if (version === null) return { server, name, names: [] }
    const path = `${pathOf(name)}/manifests/${encodeURIComponent(version)}`
    const { manifests } = (await client.request('GET', path)) as {
      readonly manifests: Readonly<Record<string, string>>
    }
    return { server, name, names: namedIn(manifests) }
  })
  return inOrder(await Promise.all(texts))
    .toReversed()
    .map(({ server }) => server)
}
