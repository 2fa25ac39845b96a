/** A graph of products and tables as lines of text, for people. */
import type { Painter } from './colours.ts'
import { plain } from './text-table.ts'

export interface LineageAnswer {
  readonly root: string
  readonly nodes: readonly {
    readonly node: string
    readonly product?: {
      readonly namespace: string
      readonly name: string
      readonly version: string | null
      readonly classification: string
    }
    readonly connection?: string
    readonly table?: string
    readonly columns?: readonly ColumnAnswer[] | null
  }[]
  readonly edges: readonly { readonly from: string; readonly to: string; readonly input: string }[]
  readonly truncated: boolean
}

interface ColumnAnswer {
  readonly name: string
  readonly classification: string
  readonly masked: boolean | null
  readonly known: boolean
  readonly from: readonly { readonly node: string; readonly column: string; readonly kind: string }[]
}

interface Options {
  readonly columns: boolean
  readonly paint: Painter
}

/** What stands in several places is told at the first of them. */
export function lineageTree(answer: LineageAnswer, options: Options): string {
  const { root, edges } = answer
  const lines = [...nodeLines(answer, root, '', options)]
  const told = new Set([root])
  const branch = (node: string, way: 'up' | 'down', indent: string): void => {
    const next = edges.filter((edge) => (way === 'up' ? edge.to : edge.from) === node)
    for (const edge of next) {
      const other = way === 'up' ? edge.from : edge.to
      const isTold = told.has(other)
      told.add(other)
      const mark = options.paint(way === 'up' ? '←' : '→', 'faint')
      const [first = '', ...rest] = nodeLines(answer, other, `${indent}  `, options)
      lines.push(`${indent}${mark} ${first.trimStart()}${isTold ? options.paint(' (see above)', 'faint') : ''}`)
      if (isTold) continue
      lines.push(...rest)
      branch(other, way, `${indent}  `)
    }
  }
  branch(root, 'up', '  ')
  branch(root, 'down', '  ')
  if (answer.truncated) lines.push('There is more than is told here.')
  return lines.join('\n')
}

function nodeLines({ nodes }: LineageAnswer, name: string, indent: string, options: Options): readonly string[] {
  const node = nodes.find((one) => one.node === name)
  const { product, columns } = node ?? {}
  if (product === undefined) return [`${indent}${plain(`${node?.connection}: ${node?.table}`)}`]
  const version = product.version ?? 'not in service'
  const about = options.paint(plain(`${version}, ${product.classification}`), 'faint')
  const head = `${indent}${plain(`${product.namespace}.${product.name}`)} ${about}`
  return [head, ...(options.columns ? (columns ?? []).map((one) => `${indent}    ${columnText(one, options)}`) : [])]
}

function columnText({ name, classification, masked, known, from }: ColumnAnswer, { paint }: Options): string {
  const shown =
    classification === 'public' ? '' : ` ${paint(plain(`${classification}${masked ? ', masked' : ''}`), 'yellow')}`
  const sources = from.map(({ node, column, kind }) => `${kind === 'copied' ? '=' : '~'} ${shortName(node)}.${column}`)
  const made = [...sources.map(plain), ...(known ? [] : ['not all is known'])].join(', ')
  return `${plain(name)}${shown}${made === '' ? '' : `  ${paint(made, 'faint')}`}`
}

const shortName = (node: string): string => node.slice(node.indexOf(':') + 1)
