/** What every key of the configuration means, from the schema that it is checked by. */
import type { TSchema } from 'typebox'
import { ConfigSchema } from '../config/schema.ts'
import { variableOf } from '../config.ts'

export interface ConfigKey {
  /** `limits.rate.free`; `[]` stands for each entry of a list, `*` for any name. */
  readonly path: string
  readonly description: string
  /** In words: `integer, at least 1`. */
  readonly type: string
  /** As JSON. Null: there is none. */
  readonly default: string | null
  /** It has to be set where what it is a part of is. */
  readonly isRequired: boolean
  /** The variable that sets it; null: none does. */
  readonly variable: string | null
}

interface Node {
  readonly type?: string
  readonly const?: unknown
  readonly description?: string
  readonly default?: unknown
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly required?: readonly string[]
  readonly properties?: Readonly<Record<string, Node>>
  readonly patternProperties?: Readonly<Record<string, Node>>
  readonly items?: Node
  readonly anyOf?: readonly Node[]
}

/** In the order of the schema, what is inside a key after it. */
export function configKeys(schema: TSchema = ConfigSchema): readonly ConfigKey[] {
  return inside(schema as Node, [])
}

/** Those at the path, and inside it; of a part of a list or map also by the name that an entry has. */
export function keysUnder(path: string): readonly ConfigKey[] {
  const wanted = path.split('.')
  return configKeys().filter((key) => {
    const parts = key.path.split('.')
    return wanted.every((part, index) => [part, `${part}[]`, '*'].includes(parts[index] ?? ''))
  })
}

function inside(node: Node, path: readonly string[]): readonly ConfigKey[] {
  const own = Object.entries(node.properties ?? {}).flatMap(([name, child]) => {
    const isRequired = child.default === undefined && (node.required ?? []).includes(name)
    return [...keyOf(child, [...path, name], isRequired), ...inside(child, [...path, name])]
  })
  const last = path.at(-1)
  const listed = node.items?.properties === undefined ? [] : inside(node.items, [...path.slice(0, -1), `${last}[]`])
  const named = Object.values(node.patternProperties ?? {}).flatMap((child) => inside(child, [...path, '*']))
  return [...own, ...listed, ...named, ...ofKinds(node, path)]
}

/** A union of maps, told apart by `type`: what each kind has, once. */
function ofKinds({ anyOf = [] }: Node, path: readonly string[]): readonly ConfigKey[] {
  const kinds = anyOf.filter((kind) => kind.properties !== undefined)
  if (kinds.length === 0) return []
  const types = kinds.flatMap(({ properties }) => (properties?.['type'] === undefined ? [] : [properties['type']]))
  const description = `Of which kind. ${types.map((type) => `${type.const}: ${type.description}`).join(' ')}`
  const type: Node = { anyOf: types, description }
  const rest = kinds.flatMap((kind) => {
    const { type: named, ...properties } = kind.properties ?? {}
    return inside({ ...kind, properties }, path).map((key) => ({
      ...key,
      description: `${key.description} Of ${named?.const} only.`,
    }))
  })
  return [...keyOf(type, [...path, 'type'], true), ...rest]
}

/** A map that says nothing of itself is no more than its parts. */
function keyOf(node: Node, path: readonly string[], isRequired: boolean): readonly ConfigKey[] {
  if (node.properties !== undefined && node.description === undefined) return []
  const hasParts = [node, node.items, ...(node.anyOf ?? [])].some((one) => one?.properties !== undefined)
  return [
    {
      path: path.join('.'),
      description: node.description ?? '',
      type: typeOf(node),
      default: node.default === undefined ? null : JSON.stringify(node.default),
      isRequired,
      variable: hasParts || node.patternProperties !== undefined ? null : variableOf(path),
    },
  ]
}

function typeOf(node: Node): string {
  if (node.const !== undefined) return String(node.const)
  if (node.anyOf !== undefined) {
    return node.anyOf.every((one) => one.const !== undefined) ? node.anyOf.map(typeOf).join(' | ') : 'map'
  }
  if (node.patternProperties !== undefined) {
    const [value = {}] = Object.values(node.patternProperties)
    return `map of names to ${value.type === undefined && value.anyOf === undefined ? 'values' : typeOf(value)}`
  }
  if (node.type === 'array') return `list of ${node.items?.type === 'object' ? 'maps' : 'texts'}`
  if (node.type === 'object') return 'map'
  if (node.type === 'integer' || node.type === 'number') return `${node.type}${rangeOf(node)}`
  return node.type === 'boolean' ? 'true | false' : 'text'
}

function rangeOf({ minimum, maximum }: Node): string {
  if (minimum !== undefined && maximum !== undefined) return `, ${minimum} to ${maximum}`
  return minimum === undefined ? '' : `, at least ${minimum}`
}
