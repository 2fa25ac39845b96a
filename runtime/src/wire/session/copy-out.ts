/** COPY … TO STDOUT: rows as lines, one a message. */
import type { TenantCall } from '../../flow.ts'
import { cellsOf, commandComplete, copyData, copyDone, copyOut } from '../protocol/server-messages.ts'
import type { CopyOut } from '../sql/commands.ts'
import type { ClientStream } from './client-stream.ts'
import type { Portal } from './portal.ts'

export async function sendCopy(
  stream: ClientStream,
  portal: Portal,
  { format, hasHeader }: CopyOut,
  admit: (signal: AbortSignal) => Promise<TenantCall>,
): Promise<void> {
  const columns = await portal.columns(admit)
  const line = format === 'csv' ? csvLine : textLine
  await stream.write(copyOut(columns.length))
  if (hasHeader) await stream.write(copyData(line(columns.map(({ name }) => Buffer.from(name)))))
  let rows = 0
  for await (const some of portal.read(0)) {
    rows += some.length
    for (const row of some) await stream.write(copyData(line(cellsOf(row))))
  }
  await stream.write(copyDone())
  await stream.write(commandComplete(`COPY ${rows}`))
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
}

/** Bytes of UTF-8 beyond ASCII stay as they are. */
function textLine(cells: readonly (Buffer | null)[]): Buffer {
  const fields = cells.map((cell) =>
    cell === null ? '\\N' : cell.toString('latin1').replace(/[\\\b\f\n\r\t\v]/g, (sign) => ESCAPES[sign] as string),
  )
  return Buffer.from(`${fields.join('\t')}\n`, 'latin1')
}

/** Null is empty, and the empty text has quotes. A line `\.` would end the rows for older readers. */
function csvLine(cells: readonly (Buffer | null)[]): Buffer {
  const fields = cells.map((cell) => {
    if (cell === null) return ''
    const text = cell.toString('latin1')
    const isPlain = text !== '' && text !== '\\.' && !/[",\r\n]/.test(text)
    return isPlain ? text : `"${text.replaceAll('"', '""')}"`
  })
  return Buffer.from(`${fields.join(',')}\n`, 'latin1')
}
