-- One row for each segment; "shop_db"."analytics_marts"."customers" is read below
select
    case when customer_lifetime_value >= 100 then 'large' when number_of_orders = 0 then 'none' else 'small' end as segment,
    is_near,
    count(*) as customers,
    sum(customer_lifetime_value) as revenue,
    median(number_of_orders) as median_orders
from {{ ref('customers') }}
group by all
