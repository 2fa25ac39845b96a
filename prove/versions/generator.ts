/** Random versions: a first one, and others that differ from the one before in a few named ways. */
import type { Random } from '../../conformance-tests/random.ts'
import { GROUPS } from './source.ts'
import {
  type Check,
  type Condition,
  isLossy,
  keyOf,
  type SourceColumn,
  type TypeName,
  type Version,
  type VersionColumn,
} from './version.ts'

interface Kind {
  readonly of: SourceColumn
  readonly made: VersionColumn['made']
  readonly types: readonly TypeName[]
  /** The first is what it usually has. */
  readonly classes: readonly (string | null)[]
  /** Whether a row may be without it. */
  readonly isSometimesEmpty: boolean
}

const kind = (
  of: SourceColumn,
  made: VersionColumn['made'],
  types: readonly TypeName[],
  classes: readonly (string | null)[],
  isSometimesEmpty = false,
): Kind => ({ of, made, types, classes, isSometimesEmpty })

/** By the name of the column. */
const PLAIN: Readonly<Record<string, Kind>> = {
  id: kind('id', 'copy', ['integer', 'long', 'string'], [null]),
  code: kind('code', 'copy', ['string'], [null, null, 'pii.identifier']),
  grp: kind('grp', 'copy', ['string'], [null]),
  city: kind('city', 'copy', ['string'], [null, 'pii.name', 'pii.identifier']),
  town: kind('city', 'copy', ['string'], [null, 'pii.name', 'pii.identifier']),
  loud: kind('city', 'upper', ['string'], [null, 'pii.name']),
  email: kind('email', 'copy', ['string'], ['pii.identifier', 'pii.name', null], true),
  phone: kind('phone', 'copy', ['string'], ['pii.phone', 'pii.name', null]),
  note: kind('note', 'copy', ['string'], ['pii.note', 'pii.name', null], true),
  remark: kind('note', 'copy', ['string'], ['pii.note', 'pii.name', null], true),
  score: kind('score', 'copy', ['integer', 'long', 'double', 'string', 'decimal(12,2)'], [null, 'pii.salary'], true),
  twice: kind('score', 'twice', ['integer', 'long', 'string'], [null, 'pii.salary'], true),
  price: kind('price', 'copy', ['decimal(9,2)', 'decimal(12,2)', 'decimal(9,1)'], [null, 'pii.salary']),
  seen: kind('seen', 'copy', ['timestamp', 'date'], [null]),
}
const JOINED: Readonly<Record<string, Kind>> = { region: kind('grp', 'region', ['string'], [null], true) }
const GROUPED: Readonly<Record<string, Kind>> = {
  grp: kind('grp', 'copy', ['string'], [null]),
  people: kind('id', 'count', ['long', 'string'], [null]),
  total: kind('score', 'sum', ['long', 'string'], [null, 'pii.salary'], true),
  seen: kind('seen', 'newest', ['timestamp', 'date'], [null]),
}
const RENAMED: Readonly<Record<string, string>> = { city: 'town', town: 'city', note: 'remark', remark: 'note' }

const kindsOf = ({ isGrouped, join }: Pick<Version, 'isGrouped' | 'join'>): Readonly<Record<string, Kind>> =>
  isGrouped ? GROUPED : join === null ? PLAIN : { ...PLAIN, ...JOINED }

function column(name: string, { of, made, types, classes, isSometimesEmpty }: Kind, isKey = false): VersionColumn {
  const [type, classification] = [types[0] as TypeName, classes[0] ?? null]
  return { name, of, made, type, classification, isKey, nullable: isSometimesEmpty || !(isKey || name === 'seen') }
}

export function firstVersion(random: Random): Version {
  const more = Object.keys(PLAIN).filter((name) => !['id', 'town', 'remark', 'loud', 'twice'].includes(name))
  const names = ['id', ...more.filter((name) => name === 'grp' || random.chance(0.8))]
  const version: Version = {
    columns: names.map((name) => column(name, PLAIN[name] as Kind, name === 'id')),
    join: null,
    isGrouped: false,
    filter: null,
    where: null,
    writeMode: random.pick(['replace', 'merge']),
    keepsMissing: false,
    lookup: { mode: random.pick(['current', 'current', 'type_2', 'type_3']), tracked: ['grp'], index: ['id'] },
    timeseries: random.chance(0.6) ? { chunk: '1 day' } : null,
    realtime: random.chance(0.7) ? { prefix: '', include: null } : null,
    hasAnalytics: true,
    checks: [],
    classification: 'internal',
    description: 'first',
  }
  return consistent(version, null)
}

export type Change = (version: Version, random: Random) => Version

const withColumn = (version: Version, name: string, change: Partial<VersionColumn>): Version => ({
  ...version,
  columns: version.columns.map((one) => (one.name === name ? { ...one, ...change } : one)),
})

const conditionOf = (random: Random): Condition =>
  random.pick<Condition>([
    { column: 'id', operator: '>=', value: random.integer(2, 15) },
    { column: 'id', operator: '<=', value: random.integer(3, 30) },
    { column: 'grp', operator: '<>', value: random.pick(GROUPS) },
    { column: 'score', operator: '>=', value: random.integer(0, 50) },
  ])

const checkOf = (random: Random): Check => ({
  kind: random.pick(['range', 'accepted']),
  column: 'id',
  least: random.integer(0, 4),
  values: GROUPS.slice(0, random.integer(3, 4)),
  onError: random.pick(['block', 'quarantine', 'publish']),
})

const toggled = <T>(value: T | null, made: T): T | null => (value === null ? made : null)

/** Each makes another version where it can, and the same where it cannot. */
export const CHANGES: Readonly<Record<string, Change>> = {
  'a column added': (version, random) => {
    const open = Object.entries(kindsOf(version)).filter(([name]) => !version.columns.some((one) => one.name === name))
    if (open.length === 0) return version
    const [name, own] = random.pick(open)
    return { ...version, columns: [...version.columns, column(name, own)] }
  },
  'a column dropped': (version, random) => {
    const own = version.columns.filter(({ isKey }) => !isKey)
    if (own.length < 2) return version
    const { name } = random.pick(own)
    return { ...version, columns: version.columns.filter((one) => one.name !== name) }
  },
  'a column retyped': (version, random) => {
    const own = version.columns.filter(({ name }) => (kindsOf(version)[name]?.types.length ?? 0) > 1)
    if (own.length === 0) return version
    const { name } = random.pick(own)
    return withColumn(version, name, { type: random.pick(kindsOf(version)[name]?.types ?? []) })
  },
  'a column renamed': (version, random) => {
    const own = version.columns.filter(
      ({ name }) => RENAMED[name] !== undefined && !version.columns.some((one) => one.name === RENAMED[name]),
    )
    if (own.length === 0) return version
    const { name } = random.pick(own)
    return withColumn(version, name, { name: RENAMED[name] as string })
  },
  'emptiness changed': (version, random) => {
    const isDrawn = ({ name, isKey }: VersionColumn) =>
      !isKey && (kindsOf(version)[name]?.isSometimesEmpty !== true || random.chance(0.2))
    const own = version.columns.filter(isDrawn)
    if (own.length === 0) return version
    const { name, nullable } = random.pick(own)
    return withColumn(version, name, { nullable: !nullable })
  },
  'a class changed': (version, random) => {
    const own = version.columns.filter(({ name }) => (kindsOf(version)[name]?.classes.length ?? 0) > 1)
    if (own.length === 0) return version
    const { name } = random.pick(own)
    return withColumn(version, name, { classification: random.pick(kindsOf(version)[name]?.classes ?? []) })
  },
  'another key': (version, random) => {
    if (version.isGrouped) return version
    const names = random.pick([['id'], ['code'], ['id', 'grp'], ['code'], ['id', 'grp'], ['grp']])
    const lacking = names.filter((name) => !version.columns.some((one) => one.name === name))
    const columns = [...version.columns, ...lacking.map((name) => column(name, PLAIN[name] as Kind))]
    return {
      ...version,
      columns: columns.map((one) => {
        const isKey = names.includes(one.name)
        return { ...one, isKey, nullable: isKey ? false : one.nullable }
      }),
    }
  },
  'a condition of the input': (version, random) => ({ ...version, where: toggled(version.where, conditionOf(random)) }),
  'a filter of the transform': (version, random) => ({
    ...version,
    filter: toggled(version.filter, conditionOf(random)),
  }),
  'a join': (version, random) => {
    if (version.isGrouped) return version
    if (version.join !== null) return { ...version, join: null, columns: without(version.columns, ['region']) }
    return {
      ...version,
      join: random.pick(['inner', 'left']),
      columns: [...version.columns, column('region', JOINED['region'] as Kind)],
    }
  },
  'rows in groups': (version, random) =>
    version.isGrouped
      ? { ...firstVersion(random), classification: version.classification }
      : {
          ...version,
          isGrouped: true,
          join: null,
          columns: Object.entries(GROUPED).map(([name, own]) => column(name, own, name === 'grp')),
        },
  'another way of writing': (version) => ({
    ...version,
    writeMode: version.writeMode === 'merge' ? 'replace' : 'merge',
  }),
  'keys that stay': (version) => ({ ...version, writeMode: 'merge', keepsMissing: !version.keepsMissing }),
  'another history': (version, random) =>
    version.lookup === null
      ? version
      : { ...version, lookup: { ...version.lookup, mode: random.pick(['current', 'type_2', 'type_3']) } },
  'other tracked columns': (version, random) =>
    version.lookup === null
      ? version
      : { ...version, lookup: { ...version.lookup, tracked: someOf(random, version.columns) } },
  'another index': (version, random) =>
    version.lookup === null
      ? version
      : { ...version, lookup: { ...version.lookup, index: someOf(random, version.columns) } },
  'an endpoint': (version, random) =>
    random.pick<() => Version>([
      () => ({ ...version, lookup: toggled(version.lookup, { mode: 'current', tracked: [], index: [] }) }),
      () => ({ ...version, timeseries: toggled(version.timeseries, { chunk: '1 week' }) }),
      () => ({ ...version, realtime: toggled(version.realtime, { prefix: 'v:', include: null }) }),
      () => ({ ...version, hasAnalytics: !version.hasAnalytics }),
    ])(),
  'other chunks': (version, random) =>
    version.timeseries === null ? version : { ...version, timeseries: { chunk: random.pick(['1 day', '2 weeks']) } },
  'other keys of values': (version, random) =>
    version.realtime === null
      ? version
      : { ...version, realtime: { ...version.realtime, prefix: random.pick(['', 'v:', 'w:']) } },
  'other columns of values': (version, random) =>
    version.realtime === null
      ? version
      : {
          ...version,
          realtime: { ...version.realtime, include: random.chance(0.3) ? null : someOf(random, version.columns) },
        },
  'a check': (version, random) => ({
    ...version,
    checks: version.checks.length > 0 && random.chance(0.5) ? [] : [checkOf(random)],
  }),
  'who may read it': (version, random) => ({
    ...version,
    classification: random.pick(['internal', 'confidential', 'restricted']),
  }),
  'other words': (version, random) => ({ ...version, description: `words ${random.integer(1, 1_000_000)}` }),
}

/** What decides who sees what is drawn more often. */
const DRAWN: readonly string[] = Object.keys(CHANGES).flatMap((name) =>
  Array<string>({ 'a class changed': 5, 'who may read it': 2, 'a check': 2 }[name] ?? 1).fill(name),
)

const without = (columns: readonly VersionColumn[], names: readonly string[]) =>
  columns.filter(({ name }) => !names.includes(name))

const someOf = (random: Random, columns: readonly VersionColumn[]): readonly string[] =>
  columns.flatMap(({ name }) => (random.chance(0.4) ? [name] : []))

/** What a change leaves behind that no author would write is mended: what is refused is drawn on purpose (`invalid.ts`). */
function consistent(version: Version, former: Version | null): Version {
  const names = new Set(version.columns.map(({ name }) => name))
  const key = keyOf(version).map(({ name }) => name)
  const there = (some: readonly string[]) => some.filter((name) => names.has(name))
  const tracked = there(version.lookup?.tracked ?? []).filter((name) => !key.includes(name))
  const mode = tracked.length === 0 ? 'current' : (version.lookup?.mode ?? 'current')
  const shape = ({ columns }: Version) =>
    JSON.stringify(columns.map(({ name, type, isKey, of }) => [name, type, isKey, of]))
  const seen = version.columns.find(({ name }) => name === 'seen')
  const keepsMissing =
    version.keepsMissing && former !== null && version.writeMode === 'merge' && shape(version) === shape(former)
  const isQuarantined = ({ onError }: Check) => onError === 'quarantine' && version.writeMode !== 'replace'
  const checks = version.checks.flatMap((check): readonly Check[] => {
    const column = check.kind === 'range' ? 'id' : 'grp'
    const own = version.columns.find(({ name }) => name === column)
    if (own === undefined || own.classification !== null || (check.kind === 'range' && own.type === 'string')) return []
    return [{ ...check, column, onError: isQuarantined(check) ? 'publish' : check.onError }]
  })
  return {
    ...version,
    keepsMissing,
    checks,
    columns: version.columns.map((one) => (one.isKey ? { ...one, nullable: false } : one)),
    lookup:
      version.lookup === null
        ? null
        : {
            mode,
            tracked: mode === 'current' ? [] : [...new Set(tracked)],
            index: [...new Set([...key, ...there(version.lookup.index)])],
          },
    timeseries: seen === undefined || seen.nullable ? null : version.timeseries,
    realtime:
      version.realtime === null
        ? null
        : {
            ...version.realtime,
            include:
              version.realtime.include === null ? null : [...new Set([...key, ...there(version.realtime.include)])],
          },
  }
}

export interface Drawn {
  readonly version: Version
  /** By name. */
  readonly changes: readonly string[]
}

export function nextVersion(random: Random, former: Version): Drawn {
  const count = random.pick([1, 1, 2, 2, 3, 5])
  for (;;) {
    const changes: string[] = []
    let version = former
    for (let at = 0; at < count; at += 1) {
      const name = random.pick(DRAWN)
      const next = consistent((CHANGES[name] as Change)(version, random), former)
      if (JSON.stringify(next) === JSON.stringify(version)) continue
      changes.push(name)
      version = next
    }
    if (JSON.stringify(version) !== JSON.stringify(former)) return { version, changes }
  }
}

/** Whether readers of the former version may find less, or something else, so that it takes another major number. */
export function isBreaking(former: Version, next: Version): boolean {
  const after = new Map(next.columns.map((one) => [one.name, one]))
  const before = new Map(former.columns.map((one) => [one.name, one]))
  const columns = former.columns.some((old) => {
    const now = after.get(old.name)
    return now === undefined || (old.nullable && !now.nullable) || !isWider(old.type, now.type)
  })
  const added = next.columns.some(({ name, nullable }) => !before.has(name) && !nullable)
  const names = (version: Version) => keyOf(version).map(({ name }) => name)
  const key = names(former).join() !== names(next).join()
  return columns || added || key || breaksEndpoints(former, next, after)
}

function breaksEndpoints(former: Version, next: Version, after: ReadonlyMap<string, VersionColumn>): boolean {
  const endpoints = ['lookup', 'timeseries', 'realtime'] as const
  if (endpoints.some((one) => former[one] !== null && next[one] === null)) return true
  if (former.hasAnalytics && !next.hasAnalytics) return true
  const lacks = (old: readonly string[], now: readonly string[]) => old.some((name) => !now.includes(name))
  const [old, now] = [former.lookup, next.lookup]
  if (old !== null && now !== null) {
    if (lacks(old.index, now.index)) return true
    if (old.mode !== 'current' && old.mode !== now.mode) return true
    if (old.mode === 'type_3' && lacks(old.tracked, now.tracked)) return true
    const tells = former.columns.every(({ name, type }) => isTold(type, after.get(name)?.type ?? type))
    if (old.mode !== 'current' && now.mode !== 'current' && !tells) return true
  }
  if (former.realtime === null || next.realtime === null) return false
  const all = (version: Version) => version.realtime?.include ?? version.columns.map(({ name }) => name)
  return former.realtime.prefix !== next.realtime.prefix || lacks(all(former), all(next))
}

const isWider = (from: TypeName, to: TypeName): boolean =>
  from === to || [`integer long`, 'decimal(9,2) decimal(12,2)'].includes(`${from} ${to}`)

/** Whether every value of the one is a value of the other, be it in another form. */
const isTold = (from: TypeName, to: TypeName): boolean =>
  isWider(from, to) ||
  to === 'string' ||
  ['integer double', 'integer decimal(12,2)', 'date timestamp'].includes(`${from} ${to}`)

export { isLossy }
