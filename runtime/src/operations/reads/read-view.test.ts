import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import { rowMasks } from '../../policy/made-masks.ts'
import type { ServedProduct } from '../served/served-product.ts'
import { type DoubtedCopy, type ReadDeps, readingView } from './read-endpoint.ts'
import { viewOf } from './read-view.ts'

const RULES = { sensitive: [], strategies: {} }
const column = (name: string, classification: string) => ({ name, type: 'string', nullable: true, classification })
const viewer = {
  issuer: 'urn:test',
  subject: 'vito',
  groups: ['svc-viewers'],
  isAdmin: false,
  isDeveloper: false,
  isViewer: true,
} as unknown as Principal

/** Today the column is gone; the store still has the copies of a version that had it masked. */
function behind(level: string): ServedProduct {
  const columns = [column('city', 'public')]
  const madeBy = { product: { classification: level }, output: { columns: [...columns, column('email', 'pii.name')] } }
  const copy = (maskedColumns: readonly string[]) => ({
    plugin: { type: 'lookup', name: 'test' },
    target: { schema: { columns: madeBy.output.columns, primaryKey: [] }, config: {} },
    madeBy,
    maskedColumns,
    masks: new Map(maskedColumns.map((name) => [name, 'redact'])),
  })
  const targets = new Map([
    ['clear', copy([])],
    ['masked', copy(['email'])],
  ])
  return {
    domain: 'crm',
    name: 'people',
    classification: 'internal',
    snapshotClassification: 'internal',
    columns,
    formerColumns: [],
    raised: new Map(),
    grants: [],
    variants: new Map([['clear', {}]]),
    endpoints: new Map([['lookup', { type: 'lookup', targets }]]),
  } as unknown as ServedProduct
}

test('a former value of a masked column is named as masked, as the column is', () => {
  const product = behind('internal')
  const copy = product.endpoints.get('lookup')?.targets.get('masked')
  const columns = ['previous_email', 'email', 'city', 'previous_city'].map((name) => column(name, 'public'))
  Object.assign(copy?.target.schema as object, { columns })
  const { marks, policy } = viewOf(product, viewer, { type: 'lookup' }, RULES)
  const { masked_columns: told } = JSON.parse(`${marks.metaJson}}`)
  assert.deepEqual(
    [told, policy.maskedColumns],
    [
      ['previous_email', 'email'],
      ['previous_email', 'email'],
    ],
  )
})

test('a copy that is behind the lake is read by the policy that it was made under', () => {
  const { access, served } = viewOf(behind('internal'), viewer, { type: 'lookup' }, RULES)
  assert.deepEqual([access.variant, served.maskedColumns], ['masked', ['email']])
  const confidential = () => viewOf(behind('confidential'), viewer, { type: 'lookup' }, RULES)
  assert.throws(confidential, { code: 'product_forbidden' })
})

test('until a twin has come, who is to get it reads the copy in clear of a version that has nothing to hide from him', () => {
  /** Of a version with those columns, in clear alone; today `email` is masked. */
  const only = (names: readonly string[], more: Partial<Record<keyof ServedProduct, unknown>> = {}): ServedProduct => {
    const product = behind('internal')
    const columns = names.map((name) => column(name, 'public'))
    const output = { columns, primaryKey: [] }
    const madeBy = { product: { classification: 'internal' }, output, digest: 'before' }
    const masks = rowMasks({ maskedColumns: { clear: [] }, masks: null }, 'clear', columns)
    const clear = { ...product.endpoints.get('lookup')?.targets.get('clear'), madeBy, masks }
    const endpoint = { type: 'lookup', targets: new Map([['clear', clear]]), coming: new Set(['masked']) }
    const lookup = { ...endpoint, isServed: true, rebuilding: new Set() }
    const today = [column('city', 'public'), column('email', 'pii.name')]
    const variants = new Map(['clear', 'masked'].map((variant) => [variant, {}]))
    const of = { columns: today, variants, endpoints: new Map([['lookup', lookup]]) }
    return { ...product, ...of, ...more } as unknown as ServedProduct
  }
  const { access } = viewOf(only(['city']), viewer, { type: 'lookup' }, RULES)
  assert.deepEqual([access.variant, access.masks], ['clear', []])
  const hidden = [
    only(['city', 'email']),
    only(['city', 'EMail']),
    only(['city'], { raised: new Map([['before', [{ column: 'city', classification: 'pii.name' }]]]) }),
    // A version in between had it masked, and today it is gone.
    only(['city', 'phone'], { formerColumns: [column('phone', 'pii.name')] }),
  ]
  for (const product of hidden) {
    assert.throws(() => viewOf(product, viewer, { type: 'lookup' }, RULES), { code: 'not_materialized' })
  }
  const closer = only(['city'], { classification: 'confidential' })
  assert.throws(() => viewOf(closer, viewer, { type: 'lookup' }, RULES), { code: 'product_forbidden' })
})

/** Reads as often as anybody waits for a copy that is reshaped, and once more within the second look. */
const READS = 6

test('a read that finds its copy lost is answered where a second look finds the rows, and refused where it does not', async () => {
  const conflict = new SluiceError('CONFLICT', 'of another shape', { code: 'schema_conflict' })
  const call = { tenant: 'acme', principal: viewer, signal: new AbortController().signal } as TenantCall
  const doubted: string[] = []
  const deps = {
    rules: RULES,
    forget: () => undefined,
    async doubt({ type, variant }: DoubtedCopy, again: () => Promise<unknown>) {
      doubted.push(`${type} ${variant}`)
      await again().catch((error: unknown) => assert.equal(error, conflict))
    },
  } as unknown as ReadDeps
  const reading = (isRight: (reads: number) => boolean) => {
    let reads = 0
    const find = async () => behind('internal')
    return readingView({ type: 'lookup', call, find }, deps, async () => {
      reads += 1
      if (!isRight(reads)) throw conflict
      return reads
    })
  }
  assert.equal(await reading((reads) => reads === READS), READS)
  await assert.rejects(
    reading(() => false),
    { code: 'store_rebuilding' },
  )
  assert.deepEqual(doubted, ['lookup masked', 'lookup masked'])
  assert.equal(await reading((reads) => reads === 2), 2)
  assert.equal(doubted.length, 2, 'it was reshaped for a moment')
})
