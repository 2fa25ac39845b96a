import { testServingStore } from '@sluice/conformance'
import { start } from './conformance.ts'
import plugin from './index.ts'

const NAMES = [24, 25]
const TENANTS = [75, 76, 77, 78, 79, 80, 81, 82, 141]
const SERIES = [105, 106, 107, 108, 109, 110, 111]
const TIMES = [139, 143, 144, 145]

// The tables are those of the lookup store, which is asked every check of the level; the whole of the longest level is
// asked of this one by conformance.stack.test.ts.
testServingStore({ plugin, start, only: [...NAMES, ...TENANTS, ...SERIES, ...TIMES].map(String) })
