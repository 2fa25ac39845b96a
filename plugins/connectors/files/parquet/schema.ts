/** The columns of a Parquet file: each one value, or a tree of them. */
import { cutOff } from '../byte-reader.ts'
import { BrokenFile } from '../records.ts'
import { type Annotation, annotationOf } from './annotation.ts'
import { type Scalar, scalarOf } from './scalar.ts'
import { countOf, structOf, type ThriftValue } from './thrift.ts'

export interface SchemaElement {
  readonly name: string
  /** Null: it is a group. */
  readonly physical: number | null
  readonly length: number
  readonly repetition: number
  readonly childCount: number
  readonly annotation: Annotation | null
}

export const REPETITION = { required: 0, optional: 1, repeated: 2 } as const

export interface Node {
  readonly name: string
  readonly repetition: number
  /** From these levels on there is a value of it. */
  readonly maxDefinition: number
  readonly maxRepetition: number
  readonly shape: 'value' | 'struct' | 'list' | 'map'
  readonly children: readonly Node[]
  readonly leaves: readonly Leaf[]
}

export interface Leaf {
  /** Among those of the file. */
  readonly index: number
  readonly physical: number
  readonly length: number
  readonly maxDefinition: number
  readonly maxRepetition: number
  readonly scalar: Scalar
  /** What names around a value add to a document. */
  readonly nameCharacters: number
}

export interface ParquetColumn {
  readonly name: string
  readonly node: Node
  /** The leaf of a column that has one value a row; null where it is a tree. */
  readonly plain: Leaf | null
  /** Why it cannot be read. */
  readonly refused: string | null
}

const MAX_DEPTH = 32

export function elementOf(value: ThriftValue): SchemaElement {
  const fields = structOf(value)
  const name = fields?.get(4)
  if (fields === null || !Buffer.isBuffer(name)) throw cutOff('what it says of its columns')
  const physical = fields.get(1)
  return {
    name: name.toString('utf8'),
    physical: physical === undefined ? null : countOf(physical),
    length: countOf(fields.get(2), 0),
    repetition: countOf(fields.get(3), REPETITION.required),
    childCount: countOf(fields.get(5), 0),
    annotation: annotationOf(fields),
  }
}

/** `asText` names columns whose bytes somebody calls a text, though the file does not. */
export function columnsOf(
  elements: readonly SchemaElement[],
  asText: ReadonlySet<string>,
): { readonly columns: readonly ParquetColumn[]; readonly leafCount: number } {
  const build = new Building(elements)
  const root = build.take()
  const columns: ParquetColumn[] = []
  for (let at = 0; at < root.childCount; at += 1) columns.push(build.column(asText))
  build.expectEnd()
  return { columns, leafCount: build.leafCount }
}

interface Above {
  readonly maxDefinition: number
  readonly maxRepetition: number
  readonly depth: number
  readonly nameCharacters: number
}

class Building {
  readonly #elements: readonly SchemaElement[]
  #at = 0
  leafCount = 0

  constructor(elements: readonly SchemaElement[]) {
    this.#elements = elements
  }

  take(): SchemaElement {
    const element = this.#elements[this.#at]
    if (element === undefined) throw cutOff('what it says of its columns')
    this.#at += 1
    return element
  }

  expectEnd(): void {
    if (this.#at !== this.#elements.length) throw cutOff('what it says of its columns')
  }

  column(asText: ReadonlySet<string>): ParquetColumn {
    const element = this.#elements[this.#at]
    const isText = element !== undefined && asText.has(element.name)
    const node = this.#node({ maxDefinition: 0, maxRepetition: 0, depth: 0, nameCharacters: 0 }, isText)
    const isPlain = node.shape === 'value' && node.repetition !== REPETITION.repeated
    const isVariant = element?.annotation?.kind === 'variant'
    return {
      name: node.name,
      node,
      plain: isPlain ? (node.leaves[0] ?? null) : null,
      refused: isVariant ? 'it is a variant' : null,
    }
  }

  #node(above: Above, isText: boolean): Node {
    const element = this.take()
    const { name, repetition, childCount, physical } = element
    if (above.depth >= MAX_DEPTH)
      throw new BrokenFile(`its columns lie in each other more than ${MAX_DEPTH} times`, 'Write it with fewer levels.')
    const own = {
      maxDefinition: above.maxDefinition + (repetition === REPETITION.required ? 0 : 1),
      maxRepetition: above.maxRepetition + (repetition === REPETITION.repeated ? 1 : 0),
      depth: above.depth + 1,
      nameCharacters: above.nameCharacters + name.length,
    }
    const levels = { name, repetition, maxDefinition: own.maxDefinition, maxRepetition: own.maxRepetition }
    if (physical !== null) {
      const leaf = this.#leaf(element, own, isText)
      return { ...levels, shape: 'value', children: [], leaves: [leaf] }
    }
    if (childCount === 0) throw cutOff('what it says of its columns')
    const children: Node[] = []
    for (let at = 0; at < childCount; at += 1) children.push(this.#node(own, false))
    return { ...levels, shape: shapeOf(element, children), children, leaves: children.flatMap(({ leaves }) => leaves) }
  }

  #leaf({ physical, length, annotation }: SchemaElement, own: Above, isText: boolean): Leaf {
    const scalar = scalarOf(physical ?? 0, length, isText ? (annotation ?? { kind: 'text' }) : annotation)
    const { maxDefinition, maxRepetition, nameCharacters } = own
    const leaf = { index: this.leafCount, physical: physical ?? 0, length, maxDefinition, maxRepetition, scalar }
    this.leafCount += 1
    return { ...leaf, nameCharacters }
  }
}

/** What is marked as a list or map and is not built as one is shown as it is built. */
function shapeOf({ annotation }: SchemaElement, children: readonly Node[]): Node['shape'] {
  const [only, other] = children
  if (only?.repetition !== REPETITION.repeated || other !== undefined) return 'struct'
  if (annotation?.kind === 'list') return 'list'
  return annotation?.kind === 'map' && only.shape === 'struct' && only.children.length === 2 ? 'map' : 'struct'
}

/** What stands in a list: in old files without a group around each element. */
export function elementNode(list: Node): { readonly repeated: Node; readonly inner: Node | null } {
  const [repeated] = list.children
  if (repeated === undefined) throw cutOff('what it says of its columns')
  const [inner, other] = repeated.children
  const isOld = other !== undefined || repeated.name === 'array' || repeated.name === `${list.name}_tuple`
  return { repeated, inner: inner === undefined || isOld ? null : inner }
}
