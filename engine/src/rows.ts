import type { Row } from '@sluice/sdk'
import type { EngineRun, ResultColumn } from './job.ts'

type Decoder = (cell: unknown) => unknown

/** Rows of an output of kind `rows`, in batches as they arrive. To be read once, instead of `run.output`. */
export async function* rowsOf(run: EngineRun): AsyncGenerator<readonly Row[]> {
  const decoders = run.columns.map(decoderFor)
  const text = new TextDecoder()
  let rest = ''
  for await (const chunk of run.output) {
    rest += text.decode(chunk, { stream: true })
    // Each row ends with a line break and holds none.
    const end = rest.lastIndexOf('\n')
    if (end < 0) continue
    yield decode(rest.slice(0, end).replaceAll('\n', ','), decoders) as readonly Row[]
    rest = rest.slice(end + 1)
  }
}

/** Rows in the `rows` encoding, joined by commas. */
export function decodeRows(rowsJson: string, columns: readonly ResultColumn[]): unknown[][] {
  return decode(rowsJson, columns.map(decoderFor))
}

function decode(rowsJson: string, decoders: readonly Decoder[]): unknown[][] {
  const rows = JSON.parse(`[${rowsJson}]`) as unknown[][]
  for (const row of rows) {
    for (const [index, decoder] of decoders.entries()) {
      if (row[index] !== null && decoder !== asIs) row[index] = decoder(row[index])
    }
  }
  return rows
}

function decoderFor(column: ResultColumn): Decoder {
  switch (column.type) {
    case 'long':
    case 'hugeint':
    case 'bignum':
      return (cell) => BigInt(cell as string | number)
    case 'float':
      return (cell) => Math.fround(Number(cell))
    case 'double':
      return Number
    case 'binary':
      return (cell) => new Uint8Array(Buffer.from(cell as string, 'base64'))
    default:
      return asIs
  }
}

function asIs(cell: unknown): unknown {
  return cell
}
