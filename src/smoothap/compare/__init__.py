"""The methods of the paper's tables side by side: trained alike, one table out."""
