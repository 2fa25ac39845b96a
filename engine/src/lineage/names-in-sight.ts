/** What a name means among the relations in sight. Where it could mean several columns, it means them all. */
import { foldName, type TreeNode } from '../guard/tree.ts'
import { type Named, NONE, type Relation, type Sources, union, unknownColumns, withoutKeys } from './relation.ts'

export interface Place {
  readonly ctes: ReadonlyMap<string, Relation>
  /** Relations in sight: of this query and of those around it. */
  readonly inSight: readonly Named[]
  /** How many of them, the first ones, are of this query; none is told from the others where it is not said. */
  readonly own?: number
}

/** Written like a column, and one where there is none of that name. */
const CONSTANT_NAMES: ReadonlySet<string> = new Set([
  ...['current_date', 'current_time', 'current_timestamp', 'localtime', 'localtimestamp'],
  ...['current_user', 'current_role', 'session_user', 'user', 'current_schema', 'current_catalog'],
])

/** With relations of its own more. */
export function within(place: Place, named: readonly Named[]): Place {
  const { inSight, own } = place
  return { ...place, inSight: [...named, ...inSight], ...(own === undefined ? {} : { own: own + named.length }) }
}

/**
 * All columns in sight that the parts of a dotted name could mean: `a`, `t.a`, `s.t.a`, or a member of one. All there
 * are, where it could mean none: the engine knows it by a name that is not known here.
 */
export function meantBy(parts: readonly string[], place: Place): Sources {
  const folded = new Set(parts.map(foldName))
  const found = new Set<string>()
  let isKnown = parts.length === 1 && CONSTANT_NAMES.has([...folded][0] ?? '')
  for (const { names, relation } of place.inSight) {
    const fields = relation.fields?.filter((field) => folded.has(foldName(field.name)))
    // A relation whose columns cannot be told, or a whole row by its table's name.
    const isWhole = !fields || isRow(folded, names)
    for (const source of isWhole ? relation.all : NONE) found.add(source)
    for (const field of fields ?? []) for (const source of field.sources) found.add(source)
    isKnown ||= isWhole || fields.length > 0
  }
  return isKnown ? found : union(...place.inSight.map(({ relation }) => relation.all))
}

/** The one column that a name means for sure, and whose values it therefore stands for. */
export function copiedColumn(parts: readonly string[], place: Place): string | undefined {
  const { inSight, own = inSight.length } = place
  const inner = copiesNamed(parts, inSight.slice(0, own))
  const found = inner === null || inner.size > 0 ? inner : copiesNamed(parts, inSight.slice(own))
  return found?.size === 1 ? [...found][0] : undefined
}

export function copiedBy(node: unknown, place: Place): string | undefined {
  const { class: kind, column_names: names } = (node ?? {}) as TreeNode
  return kind === 'COLUMN_REF' ? copiedColumn(names as readonly string[], place) : undefined
}

/** What the columns are copies of that a name could mean; null where it could mean anything. */
function copiesNamed(parts: readonly string[], named: readonly Named[]): ReadonlySet<string | undefined> | null {
  const [first = '', second] = parts.map(foldName)
  if (parts.length > 2 || named.some(({ relation }) => relation.fields === null)) return null
  const found = new Set<string | undefined>()
  for (const { names, relation } of named) {
    for (const field of relation.fields ?? []) {
      const name = foldName(field.name)
      // A member of the column, or the column of a table of that name.
      if (second !== undefined && name === first) return null
      const isMeant = second === undefined ? name === first : name === second && foldName(names.at(-1) ?? '') === first
      if (isMeant) found.add(field.copied)
    }
  }
  return found
}

/** What the one column of that name is a copy of. */
export function copiedAs(name: string, named: readonly Named[]): string | undefined {
  if (named.some(({ relation }) => relation.fields === null)) return undefined
  const found = named.flatMap(({ relation }) =>
    (relation.fields ?? []).filter((field) => foldName(field.name) === foldName(name)),
  )
  return found.length === 1 ? found[0]?.copied : undefined
}

/** What USING and NATURAL make of the columns of two sides: one for two, which is made of both. */
export function mergedNames(
  left: readonly Named[],
  right: readonly Named[],
  node: TreeNode,
  place: Place,
): readonly Named[] {
  const keys = new Set((node.using_columns as readonly string[]).map(foldName))
  if (node.ref_type === 'NATURAL') return unknownColumns([...left, ...right])
  // Of other joins the key may be the right side's.
  const isKept = node.join_type === 'INNER' || node.join_type === 'LEFT'
  const widened = left.map((named) => ({ ...named, relation: widenKeys(named.relation, keys, isKept, place) }))
  const narrowed = right.map((named) => ({ ...named, relation: withoutKeys(named.relation, keys) }))
  return [...widened, ...narrowed]
}

const UNLIKE = { copied: undefined } as const

function widenKeys(relation: Relation, keys: ReadonlySet<string>, isKept: boolean, place: Place): Relation {
  if (!relation.fields) return relation
  const fields = relation.fields.map((field) =>
    keys.has(foldName(field.name))
      ? { ...field, sources: union(field.sources, meantBy([field.name], place)), ...(isKept ? {} : UNLIKE) }
      : field,
  )
  return { ...relation, fields, all: union(relation.all, ...fields.map((field) => field.sources)) }
}

/** By its own name, or by the one that the engine gives to subqueries without an alias: `unnamed_subquery2`. */
function isRow(parts: ReadonlySet<string>, names: readonly string[]): boolean {
  if (names.length === 0) return [...parts].every((part) => /^unnamed_subquery\d*$/.test(part))
  const known = new Set(names.map(foldName))
  return [...parts].every((part) => known.has(part))
}
