/**
 * Nobody is shown more of a column than its classes of then and of now leave, whichever versions made the rows that there are: told
 * here by what rows show, and by nothing that decides it.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { isSluiceError, type LogicalType } from '@sluice/sdk'
import type { MaskStrategy } from '../../config.ts'
import type { Principal } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { planVariants } from '../../materializer/variants.ts'
import type { ProductGrant } from '../../policy/classification.ts'
import { epochMasks, madeMasks, missingMasks, rowMasks } from '../../policy/made-masks.ts'
import { type ClassifiedColumn, type MaskingRules, masksFor } from '../../policy/masking.ts'
import type { RaisedByDigest } from '../../registry/raised-classes.ts'
import { audiencesOf } from '../products/dashboards.ts'
import { viewOf } from '../reads/read-view.ts'
import { asMadeBy, columnsMadeBy, strictestThen } from './as-made-by.ts'
import {
  accessTo,
  orClear,
  type ReadAccess,
  refuseStaleMask,
  refuseUnmade,
  type ServedProduct,
} from './served-product.ts'

const WORLDS = 6_000
const NAMES = ['a', 'A', 'b', 'c']
const CLASSES = ['none', 'pii.x', 'pii.y', 'money']
const WAYS: readonly MaskStrategy[] = ['hash', 'partial', 'redact', 'null', 'omit']

type Draw = (below: number) => number

function drawing(seed: number): Draw {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

const one = <Item>(draw: Draw, items: readonly Item[]): Item => items[draw(items.length)] as Item
const some = <Item>(draw: Draw, items: readonly Item[]): Item[] => items.filter(() => draw(2) === 0)

interface World {
  readonly rules: MaskingRules
  readonly reader: Principal
  readonly product: ServedProduct
  /** Oldest first. */
  readonly epochs: readonly Epoch[]
  readonly today: ManifestSet
}

interface Epoch {
  readonly epoch: number
  readonly version: ManifestSet
  readonly maskedColumns: Readonly<Record<string, readonly string[]>>
  readonly masks: ReturnType<typeof epochMasks> | null
}

function versionOf(draw: Draw, digest: string): ManifestSet {
  const names = some(draw, NAMES).filter((name, _, all) => name !== 'A' || !all.includes('a'))
  const columns = ['id', ...names].map((name) => ({
    name,
    type: one<LogicalType>(draw, ['string', 'string', 'integer']),
    nullable: true,
    classification: name === 'id' ? 'none' : one(draw, CLASSES),
    role: name === 'id' ? 'identity' : 'attribute',
    description: '',
  }))
  const output = { format: 'iceberg', columns, primaryKey: ['id'], partitioning: [], writeMode: 'merge' }
  return { digest, product: { classification: 'internal' }, output } as unknown as ManifestSet
}

const rulesOf = (draw: Draw): MaskingRules => ({
  sensitive: ['money'],
  strategies: Object.fromEntries(CLASSES.map((name) => [name, one(draw, WAYS)])),
})

function grantsFor(draw: Draw): ProductGrant[] {
  return some(draw, ['vito', 'vera']).map((subject) => ({
    subjectType: 'user',
    issuer: 'urn:test',
    subject,
    may: 'unmask',
    classes: some(draw, CLASSES),
  }))
}

function worldOf(draw: Draw): World {
  const versions = Array.from({ length: 2 + draw(3) }, (_, at) => versionOf(draw, `digest ${at}`))
  // A version may come back: by a rollback, or deployed again.
  const served = [...versions, ...some(draw, versions)]
  const today = served.at(-1) as ManifestSet
  const rules = rulesOf(draw)
  const grants = grantsFor(draw)
  const raised = new Map(
    draw(3) > 0 ? [] : versions.map(({ digest, output: { columns } }) => [digest, raisedOf(draw, columns)] as const),
  ) as unknown as RaisedByDigest
  const made = served.slice(0, Math.max(1, served.length - draw(2)))
  const epochs = made.map((version, at): Epoch => {
    // Masks are configured, and grants given, anew at any time.
    const variants = planVariants(version.output, grantsFor(draw), draw(3) === 0 ? rulesOf(draw) : rules)
    return {
      epoch: at + 1,
      version,
      maskedColumns: Object.fromEntries(
        variants.map(({ variant, masks }) => [variant, masks.map((one) => one.column)]),
      ),
      masks: draw(8) === 0 ? null : epochMasks(variants),
    }
  })
  const newest = epochs.at(-1) as Epoch
  const now = columnsMadeBy(today, raised, rules)
  const former = new Map<string, ClassifiedColumn>()
  for (const { output } of served) for (const column of output.columns) former.set(column.name, column)
  const gone = [...former.values()].filter(({ name }) => !now.some((column) => column.name === name))
  const copies = epochs[draw(epochs.length)] as Epoch
  const targets = Object.keys(copies.maskedColumns)
    .filter((variant) => variant === 'clear' || draw(4) > 0)
    .map((variant) => [variant, copyOf(copies, variant)] as const)
  const product = {
    domain: 'crm',
    name: 'people',
    classification: 'internal',
    snapshotClassification: 'internal',
    columns: strictestThen(now, gone, columnsMadeBy(newest.version, raised, rules), rules),
    formerColumns: gone,
    raised,
    grants,
    remaking: { name: 'crm.people', paused: null, toDeploy: [] },
    variants: new Map(Object.keys(newest.maskedColumns).map((variant) => [variant, copyOf(newest, variant)])),
    endpoints: new Map([
      [
        'lookup',
        { type: 'lookup', targets: new Map(targets), isServed: true, rebuilding: new Set(), coming: new Set() },
      ],
    ]),
  } as unknown as ServedProduct
  const reader = { issuer: 'urn:test', subject: one(draw, ['vito', 'vera']), groups: [], isViewer: true }
  return { rules, reader: reader as unknown as Principal, product, epochs, today }
}

const raisedOf = (draw: Draw, columns: readonly ClassifiedColumn[]) =>
  some(draw, columns)
    .filter(({ name }) => name !== 'id')
    .map(({ name }) => ({ column: name, classification: one(draw, CLASSES.slice(1)) }))

const copyOf = (made: Epoch, variant: string) => ({
  plugin: { type: 'lookup', name: 'test', capabilities: {} },
  target: { schema: { columns: made.version.output.columns, primaryKey: ['id'] }, config: {} },
  madeBy: made.version,
  epoch: made.epoch,
  variant,
  maskedColumns: made.maskedColumns[variant],
  masks: rowMasks(made, variant, made.version.output.columns),
  made,
})

interface Shown {
  readonly made: Epoch
  readonly variant: string
}

/** By door, what the reader is given there; absent: nothing. */
const DOORS: Readonly<Record<string, (world: World, at: number) => Shown | null>> = {
  statement({ product, reader, rules, epochs }) {
    const today = accessTo(product, reader, rules, (variant) => product.variants.has(variant))
    const access = orClear(today, (variant) => product.variants.get(variant)?.masks)
    const served = product.variants.get(access.variant)
    if (served === undefined) refuseUnmade(product, access)
    if (served === undefined) return null
    refuseStaleMask(product, access.masks, served.masks)
    return { made: epochs.at(-1) as Epoch, variant: access.variant }
  },
  past(world, at) {
    const made = world.epochs[at] as Epoch
    const access = accessToEpoch(world, made)
    refuseStaleMask(world.product, access.masks, masksOf(made)(access.variant) ?? new Map())
    return access.variant in made.maskedColumns ? { made, variant: access.variant } : null
  },
  read({ product, reader, rules }) {
    const { served, access } = viewOf(product, reader, { type: 'lookup' }, rules)
    return { made: (served as unknown as ReturnType<typeof copyOf>).made, variant: access.variant }
  },
  dashboard({ product, reader, rules }) {
    const { variants } = audiencesOf({ rules }, product, 'lookup', reader.issuer)
    const isOwn = product.grants.some(({ subject }) => subject === reader.subject)
    const name = isOwn ? reader.subject : 'svc-viewers'
    const given = variants.find(({ subjects }) => subjects.some((subject) => subject.name === name))
    const copy = given && product.endpoints.get('lookup')?.targets.get(given.variant)
    return copy ? { made: (copy as unknown as ReturnType<typeof copyOf>).made, variant: given.variant } : null
  },
  catalog({ product, reader, rules, epochs }, at) {
    const { variant, masks } = accessTo(product, reader, rules, (kept) => product.variants.has(kept))
    refuseStaleMask(product, masks, product.variants.get(variant)?.masks ?? new Map())
    const made = epochs[at] as Epoch
    if (!(variant in made.maskedColumns)) return null
    const { columns } = asMadeBy(product, made.version, rules)
    const missing = missingMasks(masksFor(columns, clearOf(product, reader), rules), rowsOf(made, variant))
    return missing.length === 0 ? { made, variant } : null
  },
  exported({ product, reader, rules, epochs }, at) {
    const made = epochs[at] as Epoch
    const variants = Object.keys(made.maskedColumns)
    const variant = variants[at % variants.length] as string
    const { masks } = accessTo(asMadeBy(product, made.version, rules), reader, rules, () => true)
    refuseStaleMask(product, masks, rowsOf(made, variant))
    return { made, variant }
  },
}

const rowsOf = (made: Epoch, variant: string) => rowMasks(made, variant, made.version.output.columns)
const masksOf = (made: Epoch) => (variant: string) =>
  variant in made.maskedColumns ? rowsOf(made, variant) : undefined

function accessToEpoch({ product, reader, rules }: World, made: Epoch): ReadAccess {
  const under = asMadeBy(product, made.version, rules)
  return orClear(
    accessTo(under, reader, rules, (variant) => variant in made.maskedColumns),
    masksOf(made),
  )
}

function clearOf({ grants }: ServedProduct, { subject }: Principal): ReadonlySet<string> {
  return new Set(grants.filter((grant) => grant.subject === subject).flatMap(({ classes }) => classes))
}

/** What the rows show of columns that is more than a class of them leaves for this reader. */
function toldTooMuch({ product, reader, rules, today }: World, { made, variant }: Shown): readonly string[] {
  const clear = clearOf(product, reader)
  const hides = (name: string) => (name.startsWith('pii.') || rules.sensitive.includes(name)) && !clear.has(name)
  return made.version.output.columns.flatMap(({ name, classification }) => {
    const like = today.output.columns.filter((column) => column.name.toLowerCase() === name.toLowerCase())
    const isGone = !today.output.columns.some((column) => column.name === name)
    const former = isGone ? product.formerColumns.filter((column) => column.name === name) : []
    const raisedOf = (version: ManifestSet, column: string) =>
      (product.raised.get(version.digest) ?? []).filter((raised) => raised.column === column)
    const classes = [
      classification,
      ...[...like, ...former].map((column) => column.classification),
      ...[...raisedOf(made.version, name), ...like.flatMap((column) => raisedOf(today, column.name))].map(
        (raised) => raised.classification,
      ),
    ].filter(hides)
    const isMasked = made.maskedColumns[variant]?.includes(name) ?? false
    const way = isMasked ? (made.masks?.[variant]?.[name] ?? 'unknown') : 'clear'
    const isFine = (hidden: string) => ['redact', 'null', 'omit'].includes(way) || way === rules.strategies[hidden]
    return classes.every(isFine) ? [] : [`${name} of ${classification}: ${way}, where ${classes} hide it`]
  })
}

it('rows of any version show no reader more than every class of a column leaves, at no door', () => {
  const given = new Map<string, number>()
  let isNew = 0
  for (let seed = 1; seed <= WORLDS; seed += 1) {
    const world = worldOf(drawing(seed))
    for (const [door, ask] of Object.entries(DOORS)) {
      for (const at of world.epochs.keys()) {
        let shown: Shown | null = null
        try {
          shown = ask(world, at)
        } catch (error) {
          if (!isSluiceError(error)) throw error
        }
        if (shown === null) continue
        assert.deepEqual(toldTooMuch(world, shown), [], `world ${seed}, ${door}, epoch ${shown.made.epoch}`)
        given.set(door, (given.get(door) ?? 0) + 1)
        const { product, reader, rules } = world
        const { masks } = accessTo(asMadeBy(product, shown.made.version, rules), reader, rules, () => true)
        if (missingMasks(masks, madeMasks(shown.made, shown.variant)).length > 0) isNew += 1
      }
    }
  }
  for (const door of Object.keys(DOORS)) assert.ok((given.get(door) ?? 0) > WORLDS / 4, `${door}: ${given.get(door)}`)
  assert.ok(isNew > WORLDS / 20, 'rows without a column that is hidden by now are shown')
})
