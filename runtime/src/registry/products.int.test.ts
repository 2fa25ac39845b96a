import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import type pg from 'pg'
import { until } from '../../../test/until.ts'
import { inTransaction } from '../database/pools.ts'
import { askForJobs, claimJobs, failJob, finishJob } from '../jobs/claims.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { pastOf } from '../materializer/targets.ts'
import { returningNotes } from '../operations/deploy/upstreams.ts'
import { readersOf } from '../operations/products/input-reads.ts'
import {
  type AwaitedComparison,
  createDeployment,
  finishDeployment,
  listDeployments,
  supersedeDeployments,
} from './deployments.ts'
import {
  ENDPOINTS_JOB,
  endpointApplied,
  endpointFailed,
  endpointPending,
  endpointStates,
  endpointsDue,
  forgetEndpoint,
} from './endpoint-states.ts'

import { raiseFence } from './fences.ts'
import { productInputs } from './lineage.ts'
import {
  epochAsOf,
  epochOfSnapshot,
  epochsFrom,
  findEpoch,
  findMaterialization,
  lastEpochOfVersion,
  latestEpoch,
  listMaterializations,
  type Materialization,
  type NewMaterialization,
  recordBlocked,
  recordEpoch,
  reserveEpoch,
} from './materializations.ts'
import { policyVersion } from './policy-versions.ts'
import { PRODUCTS } from './product-sources.ts'
import {
  createProduct,
  deleteProduct,
  deployedProducts,
  findProduct,
  findProductsByName,
  listProducts,
  type Product,
  productsInServiceOf,
  productsReadingFrom,
  updateProduct,
} from './products.ts'
import { blockingColumns, productNotices, saveRaisedColumns, settleRaisedColumns } from './raised-classes.ts'
import type { Queryable } from './sql.ts'
import { ANN, startTestRegistry } from './testing.ts'
import { findDraft, findVersion, JUDGED_BY_INFLUENCE, listVersions, saveDraft, saveVersion } from './versions.ts'

const registry = await startTestRegistry()
const { pool } = registry
after(() => registry[Symbol.asyncDispose]())

function create(tenant: string, domain: string, name: string): Promise<Product> {
  return inTransaction(pool, (tx) =>
    createProduct(tx, { tenant, domain, name, archetype: 'aggregate', createdBy: ANN }),
  )
}

describe('a product', () => {
  it('is found by id and by name, in its tenant only', async () => {
    const [mine, theirs] = [await registry.tenant(), await registry.tenant()]
    const sales = await create(mine, 'sales', 'orders')
    const supply = await create(mine, 'supply', 'orders')
    await create(theirs, 'sales', 'orders')
    await assert.rejects(create(mine, 'sales', 'orders'), { kind: 'CONFLICT', code: 'product_exists' })
    assert.deepEqual(await findProduct(pool, mine, sales.id), sales)
    assert.equal(await findProduct(pool, theirs, sales.id), null)
    assert.deepEqual(await findProductsByName(pool, mine, 'orders'), [sales, supply])
    assert.deepEqual(await findProductsByName(pool, mine, 'orders', 'supply'), [supply])
    const listed = await listProducts(pool, mine, { limit: 10, after: null }, { domain: 'sales' })
    assert.deepEqual(listed.items, [sales])
    assert.equal(await updateProduct(pool, theirs, sales.id, { description: 'stolen' }), null)
    assert.equal(await inTransaction(pool, (tx) => deleteProduct(tx, theirs, sales.id)), false)
    assert.equal(await inTransaction(pool, (tx) => deleteProduct(tx, mine, sales.id)), true)
  })

  it('is in service with its version', async () => {
    const tenant = await registry.tenant()
    const product = await registry.product(tenant)
    assert.deepEqual(await deployedProducts(pool, tenant), [])
    const deployed = await updateProduct(pool, tenant, product.id, { status: 'deployed', currentVersion: '1.0.0' })
    assert.deepEqual(await deployedProducts(pool, tenant), [deployed])
    await updateProduct(pool, tenant, product.id, { status: 'retired' })
    assert.deepEqual(await deployedProducts(pool, tenant), [])
  })

  it('is known to read from a connection by its draft and by its version in service', async () => {
    const tenant = await registry.tenant()
    const reading = (connection: string) => ({
      inputs: [
        { name: 'a', connection: 'x' },
        { name: 'b', connection },
      ],
    })
    const draft = (product: Product, connection: string) =>
      saveDraft(pool, {
        productId: product.id,
        manifests: {},
        normalised: reading(connection),
        digest: 'd',
        warnings: [],
        uploadedBy: ANN,
      })
    const drafted = await create(tenant, 'd', 'drafted')
    await draft(drafted, 'crm"x')
    const serving = await create(tenant, 'd', 'serving')
    const version = {
      productId: serving.id,
      version: '1.0.0',
      manifests: {},
      normalised: reading('crm"x'),
      digest: 'd',
    }
    await inTransaction(pool, (tx) => saveVersion(tx, { ...version, deployedBy: ANN }))
    assert.deepEqual(await productsReadingFrom(pool, tenant, 'crm"x'), [drafted])
    const live = await updateProduct(pool, tenant, serving.id, { currentVersion: '1.0.0' })
    await draft(drafted, 'other')
    assert.deepEqual(await productsReadingFrom(pool, tenant, 'crm"x'), [live])
  })

  describe('needs what a version is made of that may come back', () => {
    const deployment = (product: Product, about: { kind: 'deploy' | 'rollback'; version: string; former?: string }) =>
      createDeployment(pool, {
        tenant: product.tenant,
        productId: product.id,
        kind: about.kind,
        version: about.version,
        digest: about.version,
        fence: 1n,
        plan: {},
        createdBy: ANN,
        comparison: about.former === undefined ? null : awaiting(product, about.former),
      })
    const awaiting = (product: Product, version: string): AwaitedComparison => ({
      accepted: false,
      productId: product.id,
      former: {
        version,
        classification: 'internal',
        archetype: 'aggregate',
        description: '',
        schedule: null,
        paused: null,
      },
      classes: null,
    })
    /** What is under way for a product whose version 2.0.0 is in service, and of which versions it needs what these are made of. */
    const ways: Readonly<Record<string, [(product: Product) => Promise<unknown>, readonly string[]]>> = {
      'nothing under way': [async () => undefined, ['2.0.0']],
      'a rollback that waits for its run': [
        (product) => deployment(product, { kind: 'rollback', version: '1.0.0' }),
        ['1.0.0', '2.0.0'],
      ],
      'a rollback that has failed': [
        async (product) => {
          const { id } = await deployment(product, { kind: 'rollback', version: '1.0.0' })
          await finishDeployment(pool, id, 'failed')
        },
        ['2.0.0'],
      ],
      'a rollback that a later one has superseded': [
        async (product) => {
          await deployment(product, { kind: 'rollback', version: '1.0.0' })
          await inTransaction(pool, (tx) => supersedeDeployments(tx, product.id))
          await deployment(product, { kind: 'rollback', version: '0.9.0' })
        },
        ['0.9.0', '2.0.0'],
      ],
      'rows that are to be compared': [
        (product) => deployment(product, { kind: 'deploy', version: '2.0.0', former: '1.0.0' }),
        ['1.0.0', '2.0.0'],
      ],
      both: [
        async (product) => {
          await deployment(product, { kind: 'deploy', version: '2.0.0', former: '1.0.0' })
          await deployment(product, { kind: 'rollback', version: '0.9.0' })
        },
        ['0.9.0', '1.0.0', '2.0.0'],
      ],
      'rows that have been compared': [
        async (product) => {
          const { id } = await deployment(product, { kind: 'deploy', version: '2.0.0', former: '1.0.0' })
          await finishDeployment(pool, id, 'succeeded')
        },
        ['2.0.0'],
      ],
    }
    for (const [name, [begin, needed]] of Object.entries(ways)) {
      it(`: ${name}`, async () => {
        const [tenant, other] = [await registry.tenant(), await registry.tenant()]
        const product = await create(tenant, 'd', 'top')
        const versions = ['0.9.0', '1.0.0', '2.0.0']
        for (const version of versions) {
          const inputs = [
            { name: 'a', connection: `db ${version}` },
            { name: 'b', connection: PRODUCTS, table: `d.base ${version}` },
          ]
          const content = { productId: product.id, version, manifests: {}, normalised: { inputs }, digest: version }
          await inTransaction(pool, (tx) => saveVersion(tx, { ...content, deployedBy: ANN }))
        }
        await updateProduct(pool, tenant, product.id, { status: 'deployed', currentVersion: '2.0.0' })
        await begin(product)
        const read = await Promise.all(
          versions.map(async (version) => (await productsReadingFrom(pool, tenant, `db ${version}`)).length > 0),
        )
        assert.deepEqual(
          versions.filter((_, at) => read[at]),
          needed,
        )
        assert.deepEqual(
          (await productInputs(pool, tenant)).get('d.top')?.toSorted(),
          needed.map((one) => `d.base ${one}`),
        )
        assert.equal((await productInputs(pool, other)).size, 0)
        const told = await Promise.all(
          versions.map((version) => {
            const inService = version === '2.0.0' ? [{ namespace: 'd', product: 'top' }] : []
            return returningNotes(pool, { tenant, domain: 'd', name: `base ${version}` }, inService)
          }),
        )
        assert.deepEqual(
          versions.filter((_, at) =>
            told[at]?.some((note) => note.startsWith('d.top may be made of this product again')),
          ),
          needed.filter((version) => version !== '2.0.0'),
          'plans tell of it',
        )
      })
    }
  })
})

/** The pool, with the statements that were sent over it. */
function counting(): { readonly db: Queryable; readonly sent: string[] } {
  const sent: string[] = []
  const query = (statement: { readonly text: string }) => {
    sent.push(statement.text)
    return pool.query(statement)
  }
  return { db: { query } as unknown as Queryable, sent }
}

describe('the products that are made of something', () => {
  interface Made {
    readonly product: Product
    readonly reads: readonly string[]
    readonly isInService: boolean
  }

  async function make(tenant: string, name: string, reads: readonly string[], way: string): Promise<Made> {
    const product = await create(tenant, 'd', name)
    const inputs = reads.map((read, at) => {
      const isProduct = read.startsWith('d.')
      return { name: `i${at}`, connection: isProduct ? PRODUCTS : read, table: isProduct ? read : 'public.t' }
    })
    const version = { productId: product.id, version: '1.0.0', manifests: {}, normalised: { inputs }, digest: 'd' }
    await inTransaction(pool, (tx) => saveVersion(tx, { ...version, deployedBy: ANN }))
    const status = way === 'retired' ? 'retired' : way === 'degraded' ? 'degraded' : 'deployed'
    const currentVersion = way === 'former' ? '2.0.0' : '1.0.0'
    if (way !== 'drafted') await updateProduct(pool, tenant, product.id, { status, currentVersion })
    if (way === 'former') {
      const newer = { ...version, version: currentVersion, normalised: { inputs: [] } }
      await inTransaction(pool, (tx) => saveVersion(tx, { ...newer, deployedBy: ANN }))
    }
    if (way === 'preview') await pool.query('update products set preview_of = id where id = $1', [product.id])
    return { product, reads, isInService: way === 'deployed' || way === 'degraded' }
  }

  const namesOf = (found: readonly { readonly product: Product }[]) => found.map(({ product }) => product.name)
  const inOrder = (found: readonly Made[]) => namesOf(found).toSorted()

  it('are told for a connection by one statement, however many others there are', async () => {
    const [mine, theirs] = [await registry.tenant('enterprise'), await registry.tenant('enterprise')]
    const connection = await registry.connection(mine)
    const ways = ['deployed', 'degraded', 'retired', 'former', 'drafted', 'preview']
    const worlds = [[connection.name], ['other'], ['other', connection.name], [`${connection.name}x`], ['d.a'], []]
    const made: Made[] = []
    for (const [at, reads] of worlds.entries())
      for (const way of ways) made.push(await make(mine, `p${at}${way}`, reads, way))
    await make(theirs, 'theirs', [connection.name], 'deployed')
    const { db, sent } = counting()
    const found = await readersOf(db, connection)
    const expected = made.filter(({ reads, isInService }) => isInService && reads.includes(connection.name))
    assert.equal(expected.length, 4)
    assert.deepEqual(namesOf(found), inOrder(expected))
    assert.ok(found.every(({ manifests }) => manifests.inputs.some((input) => input.connection === connection.name)))
    assert.equal(sent.length, 1)
  })

  it('are told for products, be it through others, without those that have nothing to do with them', async () => {
    const [mine, theirs] = [await registry.tenant('enterprise'), await registry.tenant('enterprise')]
    const ways = ['deployed', 'deployed', 'deployed', 'degraded', 'retired', 'former', 'preview']
    let state = 7
    const below = (bound: number) => {
      state = (state * 48_271) % 2_147_483_647
      return state % bound
    }
    const made: Made[] = []
    for (let at = 0; at < 30; at += 1) {
      // Circles among them.
      const reads = Array.from({ length: below(3) }, () => `d.n${below(30)}`)
      made.push(await make(mine, `n${at}`, reads, ways[below(ways.length)] as string))
    }
    await make(theirs, 'theirs', ['d.n0', 'd.n1', 'd.n2'], 'deployed')
    const reached = (names: readonly string[]): readonly Made[] => {
      const known = new Set(names)
      const found = new Set<Made>()
      for (const name of known) {
        for (const one of made.filter(({ reads, isInService }) => isInService && reads.includes(name))) {
          found.add(one)
          known.add(`d.${one.product.name}`)
        }
      }
      return [...found]
    }
    const sizes = new Set<number>()
    for (let at = 0; at < 30; at += 1) {
      const names = [`d.n${at}`, ...(at % 3 === 0 ? [`d.n${below(30)}`] : [])]
      const expected = reached(names)
      sizes.add(expected.length)
      assert.deepEqual(namesOf(await productsInServiceOf(pool, mine, names)), inOrder(expected), names.join())
    }
    assert.ok(sizes.size > 3 && sizes.has(0), [...sizes].join())
  })

  it('are found by an index', async () => {
    const plan = await inTransaction(pool, async (tx) => {
      await tx.query('set local enable_seqscan = off')
      const asked = `select from product_versions where normalised -> 'inputs' @> '[{"connection": "crm"}]'`
      return (await tx.query(`explain ${asked}`)).rows
    })
    assert.match(JSON.stringify(plan), /product_versions_inputs/)
  })
})

describe('manifests', () => {
  it('are replaced as a draft and pinned as a version', async () => {
    const product = await registry.product(await registry.tenant())
    const content = { productId: product.id, manifests: { product: 'a: 1' }, normalised: { a: [1] }, digest: 'one' }
    await saveDraft(pool, { ...content, digest: 'zero', warnings: [], uploadedBy: ANN })
    await saveDraft(pool, { ...content, warnings: [{ message: 'm' }], uploadedBy: ANN })
    const draft = await findDraft(pool, product.id)
    assert.deepEqual([draft?.digest, draft?.normalised, draft?.warnings], ['one', { a: [1] }, [{ message: 'm' }]])
    const save = (version: string, digest: string) =>
      inTransaction(pool, (tx) => saveVersion(tx, { ...content, digest, version, deployedBy: ANN }))
    const [first, second] = await Promise.all([save('1.0.0', 'one'), save('1.0.0', 'one')])
    assert.deepEqual(first, second)
    await assert.rejects(save('1.0.0', 'two'), { kind: 'CONFLICT', code: 'version_exists' })
    await save('1.1.0', 'two')
    assert.equal((await findVersion(pool, product.id, '1.0.0'))?.digest, 'one')
    assert.deepEqual((await listVersions(pool, product.id)).map(({ version }) => version).sort(), ['1.0.0', '1.1.0'])
  })

  it('say what should be done about the version in service', async () => {
    const product = await registry.product(await registry.tenant())
    const content = { productId: product.id, manifests: {}, normalised: {}, digest: 'one', version: '1.0.0' }
    const kinds = async () => (await productNotices(pool, product.tenant)).map(({ kind }) => kind)
    const save = (judgedBy?: string) =>
      inTransaction(pool, (tx) =>
        saveVersion(tx, { ...content, deployedBy: ANN, ...(judgedBy === undefined ? {} : { judgedBy }) }),
      )
    await save()
    assert.deepEqual(await kinds(), [], 'of no version in service')
    await updateProduct(pool, product.tenant, product.id, { currentVersion: '1.0.0' })
    assert.deepEqual(await kinds(), ['judged_before_influence'])
    await save(JUDGED_BY_INFLUENCE)
    assert.deepEqual(await kinds(), [])
    const raised = { productId: product.id, column: 'a', classification: 'pii.name', rawColumns: ['r'] }
    const by = { raisedIn: product.id, raisedBy: ANN }
    const raise = (digest: string, blocks: boolean) =>
      inTransaction(pool, (tx) => saveRaisedColumns(tx, product.tenant, [{ ...raised, ...by, digest, blocks }]))
    await raise('of the past', true)
    assert.deepEqual(await kinds(), [])
    const before = await policyVersion(pool, product.tenant)
    await raise('one', true)
    await raise('one', false)
    assert.ok((await policyVersion(pool, product.tenant)) > before, 'caches are told')
    assert.deepEqual(await kinds(), ['class_raised'])
    assert.deepEqual([...(await blockingColumns(pool, product.id)).keys()].sort(), ['of the past', 'one'])
    await inTransaction(pool, (tx) => settleRaisedColumns(tx, product.id, 'one', []))
    assert.deepEqual([...(await blockingColumns(pool, product.id)).keys()], ['of the past'])
  })

  it('are deployed once: the first end of a deployment counts', async () => {
    const product = await registry.product(await registry.tenant())
    const { token } = await inTransaction(pool, (tx) => raiseFence(tx, product.id))
    const made = await createDeployment(pool, {
      tenant: product.tenant,
      productId: product.id,
      kind: 'deploy',
      version: '1.0.0',
      digest: 'one',
      fence: token,
      plan: [{ step: 'create' }],
      createdBy: ANN,
    })
    assert.deepEqual([made.state, made.fence, made.plan], ['running', 1n, [{ step: 'create' }]])
    const error = { code: 'c', message: 'm' }
    assert.equal((await finishDeployment(pool, made.id, 'failed', error))?.state, 'failed')
    assert.equal(await finishDeployment(pool, made.id, 'succeeded'), null)
    const { items } = await listDeployments(pool, product.id, { limit: 5, after: null })
    assert.deepEqual(
      items.map((item) => [item.id, item.state, item.error]),
      [[made.id, 'failed', error]],
    )
  })
})

function attempt(product: Product, version: string): NewMaterialization {
  return {
    tenant: product.tenant,
    productId: product.id,
    kind: 'materialize',
    runId: null,
    version,
    digest: 'd',
    maskedColumns: { masked: ['name'] },
    inputs: { orders: { snapshot: '1' } },
    counts: { rows: 5 },
    quality: [{ check: 'c', ok: true }],
    qualityScore: 99.5,
  }
}

async function commit(product: Product, version: string, snapshot: string): Promise<Materialization> {
  return inTransaction(pool, async (tx) => {
    const epoch = await reserveEpoch(tx, product.id, 0n)
    return recordEpoch(tx, epoch, {
      ...attempt(product, version),
      snapshots: { clear: snapshot, masked: `${snapshot}9` },
    })
  })
}

describe('materializations', () => {
  it('are found by epoch, time, snapshot and version', async () => {
    const product = await registry.product(await registry.tenant())
    assert.equal(await latestEpoch(pool, product.id), null)
    const one = await commit(product, '1.0.0', '9007199254740993')
    const blocked = await recordBlocked(pool, attempt(product, '1.0.0'))
    const two = await commit(product, '1.0.0', '2')
    const three = await commit(product, '2.0.0', '3')
    assert.deepEqual([one.epoch, blocked.epoch, two.epoch, three.epoch], [1, null, 2, 3])
    assert.equal(one.snapshots.clear, '9007199254740993')
    assert.deepEqual([one.counts, one.quality, one.qualityScore], [{ rows: 5 }, [{ check: 'c', ok: true }], 99.5])
    assert.deepEqual(await latestEpoch(pool, product.id), three)
    assert.deepEqual(await findEpoch(pool, product.id, 2), two)
    assert.deepEqual(await findMaterialization(pool, product.tenant, one.id), one)
    assert.equal(await findMaterialization(pool, 'another', one.id), null)
    assert.deepEqual(await epochAsOf(pool, product.id, two.committedAt), two)
    assert.equal(await epochAsOf(pool, product.id, new Date(one.committedAt.getTime() - 1)), null)
    assert.deepEqual(await epochOfSnapshot(pool, product.id, '29'), two)
    assert.equal(await epochOfSnapshot(pool, product.id, '9'), null)
    assert.deepEqual(await lastEpochOfVersion(pool, product.id, '1.0.0'), two)
    assert.deepEqual(await epochsFrom(pool, product.id, 2, 10), [two, three])
    assert.deepEqual(await epochsFrom(pool, product.id, 1, 1), [one])
    const { items } = await listMaterializations(pool, product.id, { limit: 10, after: null })
    assert.deepEqual(
      items.filter(({ epoch }) => epoch !== null).map(({ id }) => id),
      [three.id, two.id, one.id],
    )
    assert.ok(items.some(({ id }) => id === blocked.id))
  })

  it('are read once for all stores of a product, and those that are known not at all', async () => {
    const product = await registry.product(await registry.tenant())
    const one = await commit(product, '1.0.0', '1')
    const two = await commit(product, '2.0.0', '2')
    const { db, sent } = counting()
    const manifests = { output: { primaryKey: ['id'] } } as unknown as ManifestSet
    const past = pastOf(product, { pool: db as pg.Pool }, { newest: two, manifests })
    const asked = await Promise.all([1, 1, 2, 3, 1].map((epoch) => past.epoch(epoch)))
    assert.deepEqual(asked, [one, one, two, null, one])
    assert.deepEqual(await past.keyOf('2.0.0'), ['id'])
    assert.equal(await past.keyOf('1.0.0'), null)
    assert.equal(sent.length, 3)
    const failing = pastOf(product, { pool: { query: () => Promise.reject(new Error('gone')) } as unknown as pg.Pool })
    await assert.rejects(failing.epoch(1), { message: /gone|database/ })
    await assert.rejects(failing.epoch(1), { message: /gone|database/ })
  })
})

describe('the state of an endpoint', () => {
  it('is ok with the newest epoch only, and never goes back to an older one', async () => {
    const product = await registry.product(await registry.tenant())
    const key = { productId: product.id, endpoint: 'lookup', variant: 'clear' }
    const state = async (): Promise<unknown[]> => {
      const [found] = await endpointStates(pool, product.id)
      return [found?.state, found?.appliedEpoch, found?.attempts]
    }
    const isDue = async (): Promise<boolean> =>
      (await endpointsDue(pool, 100)).some(({ productId }) => productId === product.id)
    // The wall clock may be set back by a moment between two statements.
    const becomesDue = async (): Promise<boolean> => {
      await until('the endpoint is due', isDue)
      return true
    }
    await commit(product, '1.0.0', '1')
    await endpointPending(pool, key)
    assert.deepEqual([await state(), await becomesDue()], [['pending', null, 0], true])
    await endpointApplied(pool, key, 1)
    assert.deepEqual([await state(), await isDue()], [['ok', 1, 0], false])
    await commit(product, '1.0.0', '2')
    await commit(product, '1.0.0', '3')
    await endpointPending(pool, key)
    await endpointApplied(pool, key, 2)
    assert.deepEqual([await state(), await becomesDue()], [['pending', 2, 0], true])
    await endpointFailed(pool, key, { code: 'c', message: 'm' }, 3_600_000)
    await endpointFailed(pool, key, { code: 'c', message: 'm' }, 3_600_000)
    assert.deepEqual([await state(), await isDue()], [['failed', 2, 2], false])
    await endpointFailed(pool, key, { code: 'c', message: 'm' }, 0)
    assert.equal(await becomesDue(), true)
    await endpointApplied(pool, key, 3)
    await endpointApplied(pool, key, 2)
    assert.deepEqual(await state(), ['ok', 3, 0])
    await endpointPending(pool, key, { rebuild: true })
    assert.deepEqual(await state(), ['pending', null, 0])
    await forgetEndpoint(pool, key)
    assert.deepEqual(await endpointStates(pool, product.id), [])
  })

  it('that waits after a failure of its product, or is seen to, stands in no other’s way', async () => {
    const product = await registry.product(await registry.tenant())
    await commit(product, '1.0.0', '1')
    await endpointPending(pool, { productId: product.id, endpoint: 'lookup', variant: 'clear' })
    const isDue = async (): Promise<boolean> =>
      (await endpointsDue(pool, 100)).some(({ productId }) => productId === product.id)
    await until('the endpoint is due', isDue)
    const row = { kind: ENDPOINTS_JOB, key: product.id, tenant: product.tenant }
    const mine = { kinds: [ENDPOINTS_JOB], key: product.id }
    for (const round of [1, 2]) {
      await askForJobs(pool, [row, { ...row, key: 'another' }])
      assert.equal(await isDue(), false, `asked for, ${round}`)
      const [job] = await claimJobs(pool, [mine], 3_600_000)
      assert.ok(job)
      await askForJobs(pool, [row])
      assert.equal(await isDue(), false, `done now, ${round}`)
      if (round === 1) await finishJob(pool, job, null)
      else await failJob(pool, job, new Error('broken'), 3_600_000)
      assert.equal(await isDue(), round === 1, `ended, ${round}`)
    }
    await askForJobs(pool, [row])
    assert.deepEqual(await claimJobs(pool, [mine], 3_600_000), [], 'it waits for its time')
  })
})
