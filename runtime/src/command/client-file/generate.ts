/** `sluice client generate`: asks what the caller is shown of products, and writes a client of that, or checks one. */
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import {
  type DescribedProduct,
  describe,
  digestOf,
  fullName,
  type ProductAnswer,
  type ProductSchema,
} from '../../operations/products/product-schema.ts'
import { UsageError } from '../arguments.ts'
import type { Client } from '../client.ts'
import { type CommandCall, Ending } from '../command.ts'
import { reasonUnread } from '../failures.ts'
import { pathOf } from '../product-files.ts'
import { refuseUnwritable, save } from '../saved-answer.ts'
import { plain } from '../text-table.ts'
import { type Difference, differencesOf } from './differences.ts'
import { type FileHead, LANGUAGES, type Language, readHead } from './file-head.ts'
import { pythonClient } from './python-client.ts'
import { scriptClient } from './script-client.ts'

const WRITERS = { ts: scriptClient, python: pythonClient } as const

const DIFFERS = 1
const AT_ONCE = 4

export async function generateCommand(call: CommandCall): Promise<unknown> {
  const { lang, out, check } = call.args.flags
  const language = LANGUAGES.find((one) => one === lang)
  if (lang !== undefined && language === undefined) throw new UsageError(`--lang is one of ${LANGUAGES.join(', ')}`)
  if (out === undefined) throw new UsageError('--out is missing: the file of the client')
  if (check) return await checkFile(call, out, language)
  if (language === undefined) throw new UsageError(`--lang is missing: one of ${LANGUAGES.join(', ')}`)
  await refuseOthers(out)
  const products = await asked(await call.client(), call.words)
  const text = WRITERS[language](products)
  await refuseUnwritable(out)
  await save(Readable.from([text]), out)
  const schemas = products.map(({ schema }) => schema)
  if (call.args.flags['json']) return { file: out, digest: digestOf(schemas), products: schemas.map(fullName) }
  return `${plain(out)} is a client of ${schemas.map((schema) => plain(fullName(schema))).join(', ')}.`
}

/** What somebody wrote by hand is not overwritten. */
async function refuseOthers(file: string): Promise<void> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw unreadable(file, error)
  })
  if (text === null || text === '' || isOurs(text)) return
  throw Object.assign(new Error(`${file} is there, and was not written by this command`), {
    remedy: 'Name another file, or remove that one.',
  })
}

/** One whose head was spoilt is written anew. */
function isOurs(text: string): boolean {
  try {
    return readHead(text) !== null
  } catch {
    return true
  }
}

const unreadable = (file: string, cause: unknown): Error =>
  new Error(`${file} cannot be read: ${reasonUnread(cause) ?? (cause as Error).message}`, { cause })

/** Without names, all products in service that the caller may read. */
async function asked(client: Client, named: readonly string[]): Promise<readonly DescribedProduct[]> {
  if (named.length > 0) {
    const found = await inTurns([...new Set(named)], (name) => productNamed(client, name))
    return [...new Map(found.map((one) => [fullName(one.schema), one])).values()]
  }
  const listed = (await client.list('/api/v1/products')) as readonly ProductAnswer[]
  const deployed = listed.filter(({ current_version: version }) => version !== null)
  const answers = await inTurns(deployed, (product) => client.find(pathOf(fullName(product))))
  const readable = answers.flatMap((answer) => (answer !== null && isReadable(answer as ProductAnswer) ? [answer] : []))
  if (readable.length > 0) return readable.map((answer) => describe(answer as ProductAnswer))
  throw Object.assign(new Error('there is no product in service that you may read'), {
    remedy: '"sluice product list" names those that there are.',
  })
}

async function productNamed(client: Client, name: string): Promise<DescribedProduct> {
  const answer = (await client.request('GET', pathOf(name))) as ProductAnswer
  if (answer.current_version === null) throw new Error(`${name} is not in service: it has no columns yet`)
  if (isReadable(answer)) return describe(answer)
  throw Object.assign(new Error(`you may not read ${name}`), { remedy: 'Ask its owner for a grant to read it.' })
}

function isReadable({ readable }: ProductAnswer): boolean {
  if (readable !== undefined) return readable
  throw Object.assign(
    new Error('the server does not say how columns are masked for you: it is of an earlier release'),
    {
      remedy: 'Use the sluice command of its release, or a newer server.',
    },
  )
}

async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<readonly R[]> {
  const done: R[] = []
  for (let at = 0; at < items.length; at += AT_ONCE) {
    done.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))))
  }
  return done
}

/** Of the products in the file: others that have come since are nothing that its code could miss. */
async function checkFile(call: CommandCall, file: string, language: Language | undefined): Promise<unknown> {
  const head = await headOf(file)
  if (language !== undefined && language !== head.language) {
    throw new UsageError(`${file} is of --lang ${head.language}, and not of ${language}`)
  }
  const client = await call.client()
  const missing = call.words.filter((name) => !head.products.some((product) => fullName(product) === name))
  if (missing.length > 0) throw new Error(`${file} has no product ${missing.join(', ')}`)
  const products = head.products.filter((product) => call.words.length === 0 || call.words.includes(fullName(product)))
  const found = (await inTurns(products, (product) => differencesWith(client, product))).flat()
  const code = found.length === 0 ? 0 : DIFFERS
  if (call.args.flags['json']) return new Ending(code, { differs: code === DIFFERS, differences: found }, null)
  if (code === 0) return new Ending(code, `${plain(file)} is as the server shows you its products.`, null)
  const lines = found.map((one) => `${one.breaking ? 'breaking' : 'other'}: ${plain(`${one.product}: ${one.message}`)}`)
  return new Ending(code, lines.join('\n'), `${file} is out of date: generate it again`)
}

async function headOf(file: string): Promise<FileHead> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw unreadable(file, cause)
  })
  const head = readHead(text)
  if (head === null) throw new Error(`${file} was not written by this command`)
  return head
}

async function differencesWith(client: Client, product: ProductSchema): Promise<readonly Difference[]> {
  const answer = (await client.find(pathOf(fullName(product)))) as ProductAnswer | null
  const isThere = answer !== null && answer.current_version !== null && isReadable(answer)
  return differencesOf(product, isThere ? describe(answer).schema : null)
}
