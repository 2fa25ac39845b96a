/** A product as it is proposed, and the six files that say it. */
import { Document, isMap, isScalar, isSeq, type Node, type YAMLMap } from 'yaml'
import { YAML_LIMITS } from '../manifest/read-yaml.ts'
import { plain } from './text-table.ts'

export interface DraftColumn {
  readonly name: string
  readonly type: string
  readonly role?: string
  readonly classification?: string
  readonly nullable?: boolean
  readonly description?: string
  /** Stands behind it: why it is so. */
  readonly comment?: string
}

type Fields = Readonly<Record<string, unknown>>

/** The fields of each manifest behind its header, in the order in which they are written; with notes for whoever reads them. */
export interface ProductDraft {
  readonly product: Fields & { readonly name: string; readonly namespace: string }
  readonly inputs: readonly Fields[]
  readonly inputNotes?: readonly string[]
  readonly columns: readonly DraftColumn[]
  /** Below the columns: what was left out, and why. */
  readonly columnNotes?: readonly string[]
  readonly output?: Fields
  readonly quality: Fields
  readonly endpoints: readonly Fields[]
  readonly endpointNotes?: readonly string[]
  readonly visualization?: Fields
  readonly compute: Fields
}

type Part = 'product' | 'inputs' | 'output' | 'quality' | 'serving' | 'compute'

/** No terminal and no reader of YAML takes them for anything else. */
const FLOW_WIDTH = 110

/** @param schemaOf where an editor finds the schema of a manifest; null: nowhere */
export function filesOf(
  draft: ProductDraft,
  schemaOf: ((part: Part) => string) | null,
): Readonly<Record<Part, string>> {
  const file = (part: Part, fields: Fields, ready?: (document: Document) => void): string =>
    text(part, fields, schemaOf?.(part) ?? null, ready)
  const { compute, inputs, output = {}, product, quality } = draft
  return {
    product: file('product', product),
    inputs: file('inputs', { inputs }, (it) => noteAbove(it, 'inputs', draft.inputNotes)),
    output: withinLimit(draft.columns, (columns) =>
      file('output', { format: 'iceberg', schema: columns.map(columnFields), ...output }, (it) => {
        const list = it.get('schema')
        if (!isSeq(list)) return
        list.items.forEach((item, index) => {
          const { comment } = columns[index] as DraftColumn
          if (comment !== undefined) (item as Node).comment = comments([comment])
        })
        noteBelow(list, draft.columnNotes)
      }),
    ),
    quality: file('quality', quality),
    serving: file(
      'serving',
      {
        endpoints: draft.endpoints,
        ...(draft.visualization === undefined ? {} : { visualization: draft.visualization }),
      },
      (it) => {
        const list = it.get('endpoints')
        if (!isSeq(list)) return
        if (list.items.length > 0) noteBelow(list, draft.endpointNotes)
        else noteAbove(it, 'endpoints', draft.endpointNotes)
      },
    ),
    compute: file('compute', compute),
  }
}

const columnFields = ({ name, type, role, classification, nullable, description }: DraftColumn): Fields =>
  Object.fromEntries(
    Object.entries({ name, type, role, nullable, classification, description }).filter(
      ([, value]) => value !== undefined,
    ),
  )

/** What nobody needs goes first where the file would be larger than a server takes. */
function withinLimit(columns: readonly DraftColumn[], write: (columns: readonly DraftColumn[]) => string): string {
  const whole = write(columns)
  if (Buffer.byteLength(whole) <= YAML_LIMITS.bytes) return whole
  return write(columns.map(({ description: _, comment: __, ...column }) => column))
}

function text(part: Part, fields: Fields, schema: string | null, ready?: (document: Document) => void): string {
  const kind = `${(part[0] as string).toUpperCase()}${part.slice(1)}`
  const document = new Document({ apiVersion: 'svc/v1', kind, ...fields }, { aliasDuplicateObjects: false })
  if (isMap(document.contents)) inOneLine(document.contents)
  ready?.(document)
  if (schema !== null) document.commentBefore = comments([`yaml-language-server: $schema=${schema}`])
  return document.toString({ lineWidth: 0, flowCollectionPadding: true })
}

/** Lists of columns and other small things stand in one line each. */
function inOneLine(map: YAMLMap): void {
  for (const { value } of map.items) {
    if (isMap(value)) {
      if (isSmall(value)) value.flow = true
      else inOneLine(value)
    } else if (isSeq(value)) {
      if (value.items.length > 0 && value.items.every(isScalar)) value.flow = isSmall(value) || value.items.length > 20
      for (const item of value.items) {
        if (!isMap(item)) continue
        if (isSmall(item)) item.flow = true
        else inOneLine(item)
      }
    }
  }
}

const isSmall = (node: Node): boolean => {
  const value = node.toJSON()
  const said = JSON.stringify(value)
  return said.length <= FLOW_WIDTH && !said.includes('\\n') && depthOf(value) <= 2 && !holdsObject(value)
}

/** An object within an object is easier read in lines of its own. */
const holdsObject = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.values(value).some(
    (inner) => typeof inner === 'object' && inner !== null && !Array.isArray(inner) && Object.keys(inner).length > 2,
  )

const depthOf = (value: unknown): number =>
  typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0

function noteAbove(document: Document, key: string, notes: readonly string[] = []): void {
  const pair = isMap(document.contents)
    ? document.contents.items.find(({ key: at }) => isScalar(at) && at.value === key)
    : null
  if (notes.length > 0 && pair && isScalar(pair.key)) pair.key.commentBefore = comments(notes)
}

function noteBelow(list: Node, notes: readonly string[] = []): void {
  if (notes.length > 0) list.comment = comments(notes)
}

const LONGEST_NOTE = 300

/** Names of others stand in them: whatever would end the line, or the reader's trust in it, does not. */
function comments(notes: readonly string[]): string {
  return notes
    .map((note) => plain(note.toWellFormed()))
    .map((note) => ` ${note.length > LONGEST_NOTE ? `${note.slice(0, LONGEST_NOTE - 1)}…` : note}`)
    .map((note) => note.toWellFormed())
    .join('\n')
}
