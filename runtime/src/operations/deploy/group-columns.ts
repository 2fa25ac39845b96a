/** What each group of readers is shown of each column, before a version and with it: judged as a read of theirs would be. */
import type { Variant } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { planVariants } from '../../materializer/variants.ts'
import type { ProductGrant } from '../../policy/classification.ts'
import { DEVELOPERS, VIEWERS } from '../../policy/identity.ts'
import type { MaskingRules } from '../../policy/masking.ts'
import type { GrantSubject } from '../../registry/grants.ts'
import type { Product } from '../../registry/products.ts'
import { shownColumns } from '../products/shown-columns.ts'
import { columnsMadeBy } from '../served/as-made-by.ts'
import { accessIfAny, type ReadableProduct, type ServedProduct } from '../served/served-product.ts'

/** `everybody` has a token of the tenant, and is of none of its groups. */
export interface ReaderGroup {
  readonly type: 'everybody' | 'team' | 'user'
  readonly name: string | null
  /** Of a person. */
  readonly issuer: string | null
}

/** `clear`, a mask's name, `absent` where there is no such column, or `forbidden` where the group may not read the product. */
export type Shown = string

export interface GroupColumns extends ReaderGroup {
  /** Of all columns that the product has or is going to have. */
  readonly columns: readonly { readonly name: string; readonly before: Shown; readonly after: Shown }[]
}

export interface AccessPlan {
  /** Those who are shown something else come first. */
  readonly groups: readonly GroupColumns[]
  /** Groups that are not among these. */
  readonly leftOut: number
  /** How many of those left out were judged, and are shown something else. */
  readonly changedLeftOut: number
}

/** What is judged, groups and cells of theirs, is judged while nothing else is done: a tenth of a second at the most. */
const BOUNDS = { mostJudged: 500, mostCellsJudged: 20_000, mostCells: 5_000 } as const

/** As reads meet the version once it is made. */
interface NextProduct {
  readonly product: Product
  readonly live: ManifestSet | null
  readonly next: ManifestSet
  /** Whom the version lets read, besides those that hold grants. */
  readonly readers: readonly GrantSubject[]
  /** Null: it is not registered. */
  readonly served: ServedProduct | null
}

export function planAccess(
  planned: NextProduct,
  rules: MaskingRules,
  { mostJudged, mostCellsJudged, mostCells }: Readonly<Record<keyof typeof BOUNDS, number>> = BOUNDS,
): AccessPlan {
  const { served, live, next, readers } = planned
  const before = bySubject(served?.grants ?? [])
  const after = bySubject([...(served?.grants ?? []), ...readers.map(asGrant)])
  const subjects = [...after.values()].flatMap((own) => own.slice(0, 1).map(groupOf))
  const groups = [EVERYBODY, ...MEMBERS, ...subjects.filter(isNoMember)]
  const now = live === null || served === null ? null : { manifests: live, product: served }
  const then = { manifests: next, product: asMade(planned, rules) }
  const available = new Set(planVariants(next.output, [...after.values()].flat(), rules).map((one) => one.variant))
  const names = [...new Set([...(live?.output.columns ?? []), ...next.output.columns].map(({ name }) => name))]
  const judged = groups.slice(0, Math.min(mostJudged, groupsIn(mostCellsJudged, names))).map((group): GroupColumns => {
    const principal = principalOf(group, planned.product.tenant)
    const shown =
      now && shownIn(now, principal, rules, grantsFor(group, before), (one) => now.product.variants.has(one))
    const coming = shownIn(then, principal, rules, grantsFor(group, after), (one) => available.has(one))
    const at = (columns: ReadonlyMap<string, Shown> | null, name: string) => columns?.get(name) ?? 'absent'
    return { ...group, columns: names.map((name) => ({ name, before: at(shown, name), after: at(coming, name) })) }
  })
  const sorted = judged.toSorted((a, b) => Number(isChanged(b)) - Number(isChanged(a)))
  const most = groupsIn(mostCells, names)
  const rest = sorted.slice(most)
  return {
    groups: sorted.slice(0, most),
    leftOut: groups.length - Math.min(most, sorted.length),
    changedLeftOut: rest.filter(isChanged).length,
  }
}

const groupsIn = (cells: number, columns: readonly string[]): number =>
  Math.max(1, Math.floor(cells / Math.max(1, columns.length)))

const EVERYBODY: ReaderGroup = { type: 'everybody', name: null, issuer: null }
const MEMBERS: readonly ReaderGroup[] = [VIEWERS, DEVELOPERS].map((name) => ({ type: 'team', name, issuer: null }))

const isNoMember = (group: ReaderGroup): boolean => !MEMBERS.some((one) => keyOf(one) === keyOf(group))

const groupOf = ({ subjectType, subject, issuer }: GrantSubject): ReaderGroup => ({
  type: subjectType,
  name: subject,
  issuer,
})

/** What is shown in no case is no change. */
const NOTHING: readonly Shown[] = ['absent', 'forbidden']
const isSame = ({ before, after }: GroupColumns['columns'][number]): boolean =>
  before === after || (NOTHING.includes(before) && NOTHING.includes(after))
const isChanged = ({ columns }: GroupColumns): boolean => !columns.every(isSame)

type Grants = ReadonlyMap<string, readonly ProductGrant[]>

const keyOf = ({ type, name, issuer }: ReaderGroup): string => JSON.stringify([type, name, issuer])

const bySubject = (grants: readonly ProductGrant[]): Grants => Map.groupBy(grants, (grant) => keyOf(groupOf(grant)))

const asGrant = (subject: GrantSubject): ProductGrant => ({ ...subject, may: 'read', classes: [] })

/** Its own, and those that it has by being a member: a product may have thousands of others, which are not looked through for each. */
function grantsFor(group: ReaderGroup, grants: Grants): readonly ProductGrant[] {
  return [...new Set([group, ...groupsOf(group)].flatMap((one) => grants.get(keyOf(one)) ?? []))]
}

/** A team's readers, and people, are viewers of the tenant; which other teams people are of is known with their tokens. */
function groupsOf(group: ReaderGroup): readonly ReaderGroup[] {
  if (group.type === 'everybody') return []
  const [viewers] = MEMBERS as [ReaderGroup]
  if (group.type === 'user') return [viewers]
  return group.name === DEVELOPERS ? [group] : [group, viewers]
}

function principalOf(group: ReaderGroup, tenant: string): Principal {
  const groups = [...new Set(groupsOf(group).map(({ name }) => name as string))]
  const isUser = group.type === 'user'
  return {
    issuer: isUser ? (group.issuer as string) : '',
    subject: isUser ? (group.name as string) : '',
    tenant,
    groups,
    isAdmin: false,
    isDeveloper: groups.includes(DEVELOPERS),
    isViewer: groups.includes(VIEWERS),
    claimedClearance: null,
    email: null,
    tokenExpiresAtMs: 0,
    tokenIssuedAtMs: 0,
  }
}

/** A version, and the product as reads of its rows meet it. */
interface Version<Met extends ReadableProduct> {
  readonly manifests: ManifestSet
  readonly product: Met
}

/** By column, as the product's page tells it of a reader. */
function shownIn(
  { manifests, product }: Version<ReadableProduct>,
  principal: Principal,
  rules: MaskingRules,
  grants: readonly ProductGrant[],
  available: (variant: Variant) => boolean,
): ReadonlyMap<string, Shown> {
  const access = accessIfAny({ ...product, grants }, principal, rules, available)
  const columns = shownColumns(manifests, access)
  return new Map(columns.map(({ name, mask }) => [name, access === null ? 'forbidden' : (mask ?? 'clear')]))
}

function asMade({ product, next, served }: NextProduct, rules: MaskingRules): ReadableProduct {
  const { id, domain, name } = product
  const { classification } = next.product
  const columns = columnsMadeBy(next, served?.raised ?? new Map(), rules)
  return {
    id,
    domain,
    name,
    isPreview: false,
    classification,
    snapshotClassification: classification,
    columns,
    grants: [],
  }
}
