/** Answers that go to files: whole ones only. */
import { createWriteStream } from 'node:fs'
import { open, rename, rm, stat } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { reasonOf, reasonUnwritten } from './failures.ts'
import { watchOutput } from './output.ts'
import { plain } from './text-table.ts'

const partOf = (file: string): string => `${file}.part`

/** Before anything is asked: what takes minutes would be thrown away. */
export async function refuseUnwritable(file: string): Promise<void> {
  try {
    const found = await stat(file).catch(() => null)
    const written = found === null || found.isFile() ? partOf(file) : file
    await (await open(written, 'a')).close()
    if (written !== file) await rm(written, { force: true })
  } catch (cause) {
    throw new Error(`${file} cannot be written: ${reasonUnwritten(cause) ?? (cause as Error).message}`, { cause })
  }
}

/** To standard output where there is no file. Until all is there, a file has another name: one that was cut must not look whole. */
export async function save(source: Readable, file: string | undefined): Promise<void> {
  try {
    watchOutput()
    if (file === undefined) return await pipeline(source, process.stdout, { end: false })
    const isPlain = await stat(file).then(
      (found) => found.isFile(),
      () => true,
    )
    if (!isPlain) return await pipeline(source, createWriteStream(file))
    const part = partOf(file)
    await pipeline(source, createWriteStream(part)).catch(async (error: unknown) => {
      await rm(part, { force: true })
      throw error
    })
    await rename(part, file)
  } catch (cause) {
    const reason = reasonOf(cause)
    const why = reason === undefined ? '' : `; ${reason}`
    throw new Error(`the answer is not whole: ${file ?? 'what is shown'} lacks rows${why}`, { cause })
  }
}

/** What is said of it then: `10 rows, 2345 bytes: set.json`, the rows where they are known; of a pipe its name alone. */
export async function savedLine(file: string, rows?: number): Promise<string> {
  const found = await stat(file)
  if (!found.isFile()) return `written: ${file}`
  const count = rows === undefined ? '' : `${rows} ${rows === 1 ? 'row' : 'rows'}, `
  return `${count}${found.size} bytes: ${file}`
}

/** Which columns are masked in rows that have no place to say it. Those that are too many for a header come as their number. */
export function tellMasked(headers: Headers): void {
  const told = headers.get('masked-columns')
  if (told === null) return
  const masked = JSON.parse(told) as readonly string[] | number
  const named = typeof masked === 'number' ? `${masked} columns` : masked.map(plain).join(', ')
  process.stderr.write(`Masked for you: ${named}.\n`)
}
