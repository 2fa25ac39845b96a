/** Arrays in the binary format of PostgreSQL, from their texts. */
import { elementOf } from './array-texts.ts'
import { elementsInText } from './arrays.ts'
import { binaryOf } from './binary.ts'

/** As `binaryOf`, of arrays too. */
export function cellBinary(oid: number, text: Buffer): Buffer {
  const element = elementOf(oid)
  return element === 0 ? binaryOf(oid, text) : arrayBinary(element, elementsInText(text.toString('utf8')))
}

/** Of one dimension, or of none where it is empty. */
function arrayBinary(element: number, elements: readonly (string | null)[]): Buffer {
  const cells = elements.map((one) => (one === null ? null : binaryOf(element, Buffer.from(one))))
  const hasNull = cells.includes(null) ? 1 : 0
  const head = [cells.length === 0 ? 0 : 1, hasNull, element, ...(cells.length === 0 ? [] : [cells.length, 1])]
  return Buffer.concat([
    ...head.map(int32),
    ...cells.flatMap((cell) => (cell === null ? [int32(-1)] : [int32(cell.length), cell])),
  ])
}

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}
