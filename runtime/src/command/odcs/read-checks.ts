/** All that a contract says of the values of its columns, as checks. */
import type { DraftColumn } from '../product-draft.ts'
import { keyOf } from '../proposed-parts.ts'
import type { Part } from './part.ts'
import type { ReadColumns } from './read-columns.ts'
import { type CheckValue, checkOf, type ReadRule } from './read-rules.ts'

export function checksOf(object: Part, { columns, properties, nameOf }: ReadColumns): readonly ReadRule[] {
  const found: ReadRule[] = []
  for (const { part, column } of properties) {
    found.push(...optionChecks(part, column, columns))
    for (const rule of part.parts('quality')) {
      const check = checkOf(rule, column, nameOf)
      if (check !== null) found.push(check)
    }
    if (part.flag('unique') && !found.some(({ check }) => isUniqueOf(check, column)) && !isKeyAlone(columns, column)) {
      found.push({ check: { name: `${column}_is_unique`, unique: [column] }, path: `${part.path}.unique` })
    }
    part.end()
  }
  for (const rule of object.parts('quality')) {
    const check = checkOf(rule, null, nameOf)
    if (check !== null) found.push(check)
  }
  return withNames(together(found))
}

const isUniqueOf = ({ unique }: CheckValue, column: string): boolean =>
  Array.isArray(unique) && unique.length === 1 && unique[0] === column

const isKeyAlone = (columns: readonly DraftColumn[], column: string): boolean => {
  const key = keyOf(columns)
  return key.length === 1 && key[0] === column
}

/** What the options of a type say of its values. */
function optionChecks(part: Part, column: string, columns: readonly DraftColumn[]): readonly ReadRule[] {
  const options = part.part('logicalTypeOptions')
  options.value('format')
  options.value('timezone')
  const type = columns.find(({ name }) => name === column)?.type
  const at = (check: CheckValue): ReadRule => ({ check, path: options.path })
  const pattern = type === 'string' ? options.text('pattern') : null
  const bounds = ['minimum', 'maximum'].filter((name) => options.has(name))
  const [min, max] = [options.value('minimum'), options.value('maximum')]
  options.end()
  return [
    ...(pattern === null ? [] : [at({ name: `${column}_pattern`, matches: { column, pattern } })]),
    ...(bounds.length === 0
      ? []
      : [
          at({
            name: `${column}_range`,
            range: { column, ...(min === undefined ? {} : { min }), ...(max === undefined ? {} : { max }) },
          }),
        ]),
  ]
}

/** Rules of one name that say the same of several columns are one check. */
function together(found: readonly ReadRule[]): readonly ReadRule[] {
  const made = new Map<string, ReadRule>()
  for (const [index, { check, path }] of found.entries()) {
    const { not_null: columns, ...rest } = check
    const key = Array.isArray(columns) ? JSON.stringify(rest) : String(index)
    const other = made.get(key)
    const all = [...((other?.check['not_null'] ?? []) as readonly string[]), ...(Array.isArray(columns) ? columns : [])]
    made.set(key, other === undefined ? { check, path } : { check: { ...check, not_null: all }, path: other.path })
  }
  return [...made.values()]
}

/** Each of a name of its own. */
function withNames(rules: readonly ReadRule[]): readonly ReadRule[] {
  const taken = new Set<string>()
  return rules.map(({ check, path }) => {
    let name = check.name
    for (let count = 2; taken.has(name.toLowerCase()); count += 1) name = `${check.name.slice(0, 90)}_${count}`
    taken.add(name.toLowerCase())
    return { check: { ...check, name }, path }
  })
}
