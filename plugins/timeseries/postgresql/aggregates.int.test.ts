import { testAggregates } from '../row-secured-series/aggregates.contract.fixture.ts'
import { native } from './series-under-test.fixture.ts'

testAggregates(native)
