/** What follows a statement: nothing, an error, or a table. */
import { Fields } from './fields.ts'
import { Garbled, type Packets } from './packets.ts'
import { ServerError } from './server-error.ts'

const COM_QUERY = 3
const COM_QUIT = 1
/** What kind of thing is said of a column beyond its type. */
const FORMAT = 1
/** More than a table of any such server has. */
const MAX_COLUMNS = 8192
const MAX_ANSWER_BYTES = 64 << 20

export function sendStatement(packets: Packets, sql: string): void {
  packets.send(Buffer.concat([Buffer.from([COM_QUERY]), Buffer.from(sql)]), true)
}

export function sendQuit(packets: Packets): void {
  packets.send(Buffer.from([COM_QUIT]), true)
}

/** The descriptions of the columns of the answer: none where there is no table. Rows follow. */
export async function openResult(packets: Packets): Promise<readonly Buffer[]> {
  const first = await packets.next()
  if (first[0] === 0x00) return []
  if (first[0] === 0xff) throw ServerError.of(first)
  // LOCAL INFILE: the server asks for a file of this machine.
  if (first[0] === 0xfb) throw new Garbled('a server that asks for a file')
  const columns = new Fields(first).length()
  if (columns === null || columns < 1 || columns > MAX_COLUMNS) throw new Garbled('a table of so many columns')
  const descriptions: Buffer[] = []
  for (let column = 0, bytes = 0; column < columns; column += 1) {
    const description = await packets.next()
    bytes += description.length
    if (bytes > MAX_ANSWER_BYTES) throw new Garbled('descriptions that do not end')
    if (description[0] !== 3) throw new Garbled('a column that is not described')
    descriptions.push(Buffer.from(description))
  }
  if (!isEnd(await packets.next())) throw new Garbled('columns that do not end')
  return descriptions
}

/** Whether the server says of the column that its texts are JSON; only where it tells formats. */
export function isJson(description: Buffer): boolean {
  const fields = new Fields(description)
  for (const _ of ['catalog', 'schema', 'table', 'of table', 'name', 'of column']) fields.value()
  const extended = new Fields(fields.bytes(fields.length() ?? 0))
  while (extended.left > 0) {
    const kind = extended.number(1)
    if (extended.value() === 'json' && kind === FORMAT) return true
  }
  return false
}

/** Of rows, or of the descriptions of columns. */
export function isEnd(packet: Buffer): boolean {
  return packet[0] === 0xfe && packet.length < 9
}

/** The texts of a table that is small: of a catalog, of one value. */
export async function smallResult(packets: Packets): Promise<readonly (readonly (string | null)[])[]> {
  const columns = (await openResult(packets)).length
  const rows: (string | null)[][] = []
  if (columns === 0) return rows
  for (let bytes = 0; ; ) {
    const packet = await packets.next()
    if (isEnd(packet)) return rows
    if (packet[0] === 0xff) throw ServerError.of(packet)
    bytes += packet.length
    if (bytes > MAX_ANSWER_BYTES) throw new Garbled('a catalog that does not end')
    const fields = new Fields(packet)
    rows.push(Array.from({ length: columns }, () => fields.value()))
    if (fields.left > 0) throw new Garbled('a row with more than its columns')
  }
}
