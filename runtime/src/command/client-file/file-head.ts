/** The first lines of a generated file: of which language it is, and the schemas that it was made by. */
import { digestOf, inOrder, type ProductSchema, schemaLine } from '../../operations/products/product-schema.ts'

export const LANGUAGES = ['ts', 'python'] as const
export type Language = (typeof LANGUAGES)[number]

/** Of how schemas stand in the file. Another form has another number. */
const FORM = 1
const MARKS: Readonly<Record<Language, string>> = { ts: '//', python: '#' }

export interface FileHead {
  readonly language: Language
  readonly products: readonly ProductSchema[]
}

export function headText({ language, products }: FileHead): string {
  const mark = MARKS[language]
  const lines = [
    'Made by "sluice client generate": whoever changes it by hand loses that by the next time.',
    `sluice-client ${FORM} ${language} ${digestOf(products)}`,
    ...inOrder(products).map((product) => `sluice-product ${schemaLine(product)}`),
  ]
  return lines.map((line) => `${mark} ${line}\n`).join('')
}

/** Null of a file that this command has not written. Throws where it has, and its head is not as it was. */
export function readHead(text: string): FileHead | null {
  const [, first = '', ...others] = text.split(/\r?\n/)
  const found = /^(?:\/\/|#) sluice-client (\d+) (\S+) (\S+)$/.exec(first)
  if (found === null) return null
  const [, form, language, digest] = found
  const known = LANGUAGES.find((one) => one === language)
  if (Number(form) !== FORM || known === undefined) {
    throw new Error('the file was written by a release that is newer than this one')
  }
  const begin = `${MARKS[known]} sluice-product `
  const end = others.findIndex((line) => !line.startsWith(begin))
  const products = others.slice(0, end < 0 ? undefined : end).map((line) => schemaOf(line.slice(begin.length)))
  if (digestOf(products) !== digest) throw changed()
  return { language: known, products }
}

function schemaOf(line: string): ProductSchema {
  try {
    return JSON.parse(line) as ProductSchema
  } catch {
    throw changed()
  }
}

const changed = (): Error =>
  Object.assign(new Error('the first lines of the file are not as they were written'), {
    remedy: 'Generate it again without --check.',
  })
