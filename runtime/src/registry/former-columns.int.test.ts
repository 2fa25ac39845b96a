/** Which class a column had last that the version in service has not: by what was in service, and not by what is newest. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inTransaction } from '../database/pools.ts'
import { type AwaitedComparison, createDeployment, finishDeployment, supersedeDeployments } from './deployments.ts'
import { createProduct } from './products.ts'
import { startTestRegistry } from './testing.ts'
import { formerColumns, saveVersion } from './versions.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

const tenant = await registry.tenant()
const ANN = { issuer: 'https://issuer.example', subject: 'ann' }
/** What the registry tells of time. */
const TICK_MS = 3

/** By version the class of its column `score`; null: it has none. */
const CLASSES: Readonly<Record<string, string | null>> = {
  '1.0.0': 'pii.salary',
  '2.0.0': 'public',
  '3.0.0': null,
}

/** `refused`: its rows differ too much from those of the version before, which comes back. `awaited`: nothing is known of its rows yet. */
type Step = `${'deploy' | 'refused deploy' | 'awaited deploy' | 'rollback' | 'failed rollback'} ${string}`

const CASES: readonly (readonly [what: string, steps: readonly Step[], told: string])[] = [
  ['the newest', ['deploy 1.0.0', 'deploy 2.0.0', 'deploy 3.0.0'], 'public'],
  ['gone back to', ['deploy 1.0.0', 'deploy 2.0.0', 'rollback 1.0.0', 'deploy 3.0.0'], 'pii.salary'],
  ['deployed again', ['deploy 1.0.0', 'deploy 2.0.0', 'deploy 1.0.0', 'deploy 3.0.0'], 'pii.salary'],
  ['lowered by going back', ['deploy 2.0.0', 'deploy 1.0.0', 'rollback 2.0.0', 'deploy 3.0.0'], 'public'],
  ['come back', ['deploy 1.0.0', 'refused deploy 2.0.0', 'deploy 3.0.0'], 'pii.salary'],
  ['superseded before its rows were there', ['deploy 1.0.0', 'awaited deploy 2.0.0', 'deploy 3.0.0'], 'public'],
  ['not gone back to', ['deploy 2.0.0', 'deploy 1.0.0', 'failed rollback 2.0.0', 'deploy 3.0.0'], 'pii.salary'],
]

const comparedWith = (productId: string, version: string): AwaitedComparison =>
  ({ productId, former: { version } }) as unknown as AwaitedComparison

async function played(name: string, steps: readonly Step[]): Promise<string> {
  const product = await inTransaction(pool, (tx) =>
    createProduct(tx, {
      tenant,
      domain: 'crm',
      name,
      archetype: 'source_aligned',
      description: '',
      createdBy: ANN,
    }),
  )
  let former: string | null = null
  for (const step of steps) {
    const version = step.split(' ').at(-1) as string
    const kind = step.includes('deploy') ? 'deploy' : 'rollback'
    const column = { name: 'score', classification: CLASSES[version] }
    const normalised = { inputs: [], output: { columns: column.classification === null ? [] : [column] } }
    await sleep(TICK_MS)
    await inTransaction(pool, async (tx) => {
      const about = { productId: product.id, version, digest: version }
      await saveVersion(tx, { ...about, manifests: {}, normalised, deployedBy: ANN })
      await supersedeDeployments(tx, product.id)
      const comparison = former === null || kind === 'rollback' ? null : comparedWith(product.id, former)
      const begun = { ...about, tenant, kind, fence: 1n, plan: {}, createdBy: ANN, comparison } as const
      const { id } = await createDeployment(tx, begun)
      if (step.startsWith('awaited')) return
      const differs = { code: 'version_differs', message: 'its rows differ' }
      if (/^(failed|refused)/.test(step)) await finishDeployment(tx, id, 'failed', differs)
      else await finishDeployment(tx, id, 'succeeded')
    })
    former = version
  }
  const [column] = await formerColumns<{ readonly name: string; readonly classification: string }>(pool, product.id, [])
  return column?.classification ?? 'none'
}

for (const [at, [what, steps, told]] of CASES.entries()) {
  it(`a column that is gone has the class of the version that had it in service last: ${what}`, async () => {
    assert.equal(await played(`former_${at}`, steps), told)
  })
}
