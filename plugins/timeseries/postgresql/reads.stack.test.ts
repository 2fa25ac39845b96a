import { describe } from 'node:test'
import { testRanges } from '../row-secured-series/ranges.contract.fixture.ts'
import { native } from './series-under-test.fixture.ts'

describe('ranges in native partitions', () => testRanges(native))
